//! What goes on meanwhile: a reload, a cut or a drain every few seconds.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::stage::Stage;

pub(super) struct Faults {
    stage: Arc<Stage>,
}

/// How many of each there were.
#[derive(Default)]
pub(super) struct Made {
    pub(super) reloads: u64,
    pub(super) cuts: u64,
    pub(super) drains: u64,
}

/// Between two of them.
const PAUSE: Duration = Duration::from_secs(2);

/// How long a cut lasts: longer than it takes to be noticed.
const CUT: Duration = Duration::from_secs(3);

impl Faults {
    pub(super) fn new(stage: Arc<Stage>) -> Faults {
        Faults { stage }
    }

    /// Goes on until told to stop, and leaves everything whole.
    pub(super) fn run(self, stop: &AtomicBool) -> anyhow::Result<Made> {
        let mut made = Made::default();
        for turn in 0_u64.. {
            std::thread::sleep(PAUSE);
            if stop.load(Ordering::SeqCst) {
                break;
            }
            match turn % 6 {
                0 | 2 | 4 => self.reload(&mut made)?,
                1 => self.cut(2, &mut made)?,
                3 => self.drain(3, &mut made)?,
                _ => self.cut(3, &mut made)?,
            }
        }
        Ok(made)
    }

    /// Both agents that stay read a file that differs from the last.
    fn reload(&self, made: &mut Made) -> anyhow::Result<()> {
        made.reloads += 1;
        for site in [1, 2] {
            self.stage.configure(site, 30 + made.reloads % 30)?;
            self.stage.signal(site, "-HUP")?;
        }
        Ok(())
    }

    fn cut(&self, site: usize, made: &mut Made) -> anyhow::Result<()> {
        made.cuts += 1;
        self.stage.trouble_begins(site);
        self.stage.cut(site);
        std::thread::sleep(CUT);
        self.stage.heal(site)?;
        self.stage.trouble_ends(site);
        Ok(())
    }

    /// Stops an agent as an upgrade would, and starts it again.
    fn drain(&self, site: usize, made: &mut Made) -> anyhow::Result<()> {
        made.drains += 1;
        self.stage.trouble_begins(site);
        self.stage.signal(site, "-TERM")?;
        self.stage.wait_ended(site)?;
        self.stage.start_agent(site)?;
        self.stage.trouble_ends(site);
        Ok(())
    }
}
