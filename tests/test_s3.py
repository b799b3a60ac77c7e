"""Clients of S3-compatible services: kept for the settings and the surrounding credentials they were made for."""

from __future__ import annotations

from geocairn.s3 import S3Settings, client, filesystem


def test_other_credentials_in_the_environment_are_another_client(monkeypatch):
    settings = S3Settings(endpoint="http://127.0.0.1:1", region="us-east-1")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "alice")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret-a")
    alice = client(settings), filesystem(settings)
    assert (client(settings), filesystem(settings)) == alice
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "bob")
    bob = client(settings), filesystem(settings)
    assert bob[0] is not alice[0]
    assert bob[1] is not alice[1]


def test_secrets_are_in_no_text():
    settings = S3Settings(access_key="id", secret_key="hidden", session_token="covered")
    assert "hidden" not in repr(settings)
    assert "covered" not in str(settings)
