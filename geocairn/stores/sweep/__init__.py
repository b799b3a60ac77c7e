"""The sweep: what is removed from a store, why, and in which order.

`rules` decides, `view` looks, `removal` deletes, `account` reports; `budget` orders what goes for want of room, and
`debris` finds what died writers left.
"""

from geocairn.stores.sweep.account import Sweep
from geocairn.stores.sweep.rules import Retention, sweep

__all__ = ["Retention", "Sweep", "sweep"]
