"""The lists of all that a case may have wrong."""

from tests.audit.cases import Step
from tests.audit.lies import LIES
from tests.audit.losses import LOSSES
from tests.audit.rewrites import REWRITES as REWRITES
from tests.audit.rewrites import changed_epoch
from tests.audit.rot import ROT
from tests.audit.unreadable import UNREADABLE_FILES

DAMAGES: list[Step] = [changed_epoch, *ROT, *LOSSES, *LIES, *UNREADABLE_FILES]
"""What is done to the files of a replica, after everything that `REWRITES` does."""
