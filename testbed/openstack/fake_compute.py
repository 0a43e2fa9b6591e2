"""Runs nova-compute with its fake driver: HOST STATE_FOLDER [options of nova-compute].

The fake driver draws a random node id in every process and stores none, so that a second start
is refused ("no local node identity"). Both are arranged from outside: the id follows from the
host's name, and the file that nova looks for is there. Nova itself is as it was installed.
"""

import pathlib
import sys
import uuid

import nova.monkey_patch  # noqa: F401  has to be the first import
from nova.cmd import compute
from oslo_utils.fixture import uuidsentinel

host, state = sys.argv[1], pathlib.Path(sys.argv[2])
node = str(uuid.uuid5(uuid.NAMESPACE_DNS, f"{host}.testbed"))
state.mkdir(parents=True, exist_ok=True)
(state / "compute_id").write_text(node)
setattr(uuidsentinel, f"node_{host}", node)
sys.argv = ["nova-compute", *sys.argv[3:]]
sys.exit(compute.main())
