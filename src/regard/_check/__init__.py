"""Checks of arguments, made before any computation, so that an invalid call changes no array."""

from regard._check.arrays import *  # noqa: F403
from regard._check.errors import *  # noqa: F403
from regard._check.foreign import *  # noqa: F403
from regard._check.layers import *  # noqa: F403
from regard._check.numbers import *  # noqa: F403
from regard._check.paths import *  # noqa: F403
from regard._check.unknown_options import *  # noqa: F403
