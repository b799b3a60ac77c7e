"""How S3-compatible services are reached: settings, and the clients made from them.

One place for endpoint, region, addressing style and credentials, used by the checkpoint store, by sources and by
outputs. Secrets are never part of a text that this module gives out.
"""

from __future__ import annotations

import os
import threading
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, SecretStr

DEFAULT_ENDPOINT = "aws"
"""How the endpoint is named in canonical URIs where none is set."""

_CREDENTIAL_VARIABLES = (
    "AWS_ACCESS_KEY_ID",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
    "AWS_PROFILE",
    "AWS_CONFIG_FILE",
    "AWS_SHARED_CREDENTIALS_FILE",
)

_lock = threading.Lock()
_clients: dict[tuple[str, int], Any] = {}
_filesystems: dict[tuple[str, int], Any] = {}


class S3Settings(BaseModel):
    """Endpoint, region, addressing style and credentials of an S3-compatible service.

    What is not set comes from where boto3 takes it: the AWS variables, the profile, the machine's role.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    endpoint: str | None = Field(
        None, description="URL of the service, for example http://127.0.0.1:8333; AWS when empty"
    )
    region: str | None = Field(None, description="Region, for example eu-central-1")
    path_style: bool | None = Field(
        None, description="Address buckets by path and not by host name; by default where an endpoint is set"
    )
    profile: str | None = Field(None, description="Profile of the AWS configuration files to take credentials from")
    access_key: str | None = Field(None, description="Access key id; by default from the environment or profile")
    secret_key: SecretStr | None = Field(None, description="Secret access key")
    session_token: SecretStr | None = Field(None, description="Session token of temporary credentials")

    @classmethod
    def from_environment(cls) -> S3Settings:
        """Return the settings that the usual AWS variables state; keys stay with boto3's own chain."""
        return cls(
            endpoint=os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL") or None,
            region=os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION") or None,
            profile=os.environ.get("AWS_PROFILE") or None,
        )

    @property
    def service(self) -> str:
        """The service as it stands in canonical URIs and store names: the endpoint without scheme, or `aws`."""
        if not self.endpoint:
            return DEFAULT_ENDPOINT
        return self.endpoint.partition("://")[2].rstrip("/") or self.endpoint

    def _key(self) -> str:
        secret = self.secret_key.get_secret_value() if self.secret_key else ""
        token = self.session_token.get_secret_value() if self.session_token else ""
        # Keys that are not stated come from the environment, so another environment is another client.
        outside = [] if self.access_key else [os.environ.get(name) for name in _CREDENTIAL_VARIABLES]
        return repr(
            (self.endpoint, self.region, self.path_style, self.profile, self.access_key, secret, token, outside)
        )


def client(settings: S3Settings) -> Any:
    """Return a boto3 S3 client for these settings, made once a process (and again after a fork).

    Retries are few: what to do about a failure is for recovery to decide, by its class.
    """
    key = (settings._key(), os.getpid())
    with _lock:
        if key not in _clients:
            import boto3
            from botocore.config import Config

            path_style = settings.path_style if settings.path_style is not None else bool(settings.endpoint)
            session = boto3.session.Session(
                aws_access_key_id=settings.access_key,
                aws_secret_access_key=settings.secret_key.get_secret_value() if settings.secret_key else None,
                aws_session_token=settings.session_token.get_secret_value() if settings.session_token else None,
                region_name=settings.region or ("us-east-1" if settings.endpoint else None),
                profile_name=settings.profile,
            )
            _clients[key] = session.client(
                "s3",
                endpoint_url=settings.endpoint,
                config=Config(
                    s3={"addressing_style": "path" if path_style else "auto"},
                    retries={"mode": "standard", "total_max_attempts": 2},
                    connect_timeout=5,
                    read_timeout=60,
                    max_pool_connections=32,
                    **_checksums(settings),
                ),
            )
        return _clients[key]


def _checksums(settings: S3Settings) -> dict[str, str]:
    """Return how boto3 is to add checksums: by default only where it must, for services other than AWS.

    Many of them refuse the checksums that boto3 adds by itself. Layers carry a digest of ours.
    """
    if not settings.endpoint or os.environ.get("AWS_REQUEST_CHECKSUM_CALCULATION"):
        return {}
    return {"request_checksum_calculation": "when_required", "response_checksum_validation": "when_required"}


def filesystem(settings: S3Settings) -> Any:
    """Return an s3fs file system for these settings, made once a process (and again after a fork).

    Retries are few here too.
    """
    key = (settings._key(), os.getpid())
    with _lock:
        if key not in _filesystems:
            import s3fs

            path_style = settings.path_style if settings.path_style is not None else bool(settings.endpoint)
            _filesystems[key] = s3fs.S3FileSystem(
                key=settings.access_key,
                secret=settings.secret_key.get_secret_value() if settings.secret_key else None,
                token=settings.session_token.get_secret_value() if settings.session_token else None,
                profile=settings.profile,
                endpoint_url=settings.endpoint,
                client_kwargs={"region_name": settings.region or ("us-east-1" if settings.endpoint else None)},
                config_kwargs={
                    "s3": {"addressing_style": "path" if path_style else "auto"},
                    "request_checksum_calculation": "when_required" if settings.endpoint else "when_supported",
                    "retries": {"mode": "standard", "total_max_attempts": 2},
                    "connect_timeout": 5,
                    "read_timeout": 60,
                },
                use_listings_cache=False,
                skip_instance_cache=True,
            )
            _filesystems[key].retries = 2
        return _filesystems[key]
