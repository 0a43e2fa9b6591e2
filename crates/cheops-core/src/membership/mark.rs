//! What one site believes of another, from the evidence it has.

use cheops_model::Mark;

use super::member::{Reach, State};
use super::standing::StandingWord;

/// The link that this site keeps to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkState {
    /// None is kept: the other is known by membership alone.
    NotKept,
    /// Up: messages are answered.
    Up,
    /// Kept and not up.
    Down,
}

/// What is known of a site.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Evidence {
    /// What an operator decided.
    pub standing: StandingWord,
    /// Our link to it.
    pub link: LinkState,
    /// What the mesh believes of its agent; none if it is not known by membership.
    pub state: Option<State>,
    /// How our own path to it is.
    pub reach: Reach,
    /// Whether a request for it has another way than our link: by its parents.
    pub by_way: bool,
    /// Whether this site hears any other.
    pub hears: bool,
    /// Whether it ever said anything of itself.
    pub introduced: bool,
    /// Operations that it has not applied yet.
    pub behind: u64,
}

/// The mark. Never `Connected` without a recent proof: our link is up; or there is none, this site
/// hears others, the site is alive to them and nobody suspects it. A link that is kept and down
/// stands over what others say, because requests would take it.
pub fn mark(evidence: Evidence) -> Mark {
    match evidence.standing {
        StandingWord::Fenced => return Mark::Fenced,
        StandingWord::Detached | StandingWord::Removed => return Mark::Disconnected,
        StandingWord::Attached | StandingWord::Failed => (),
    }
    let vouched = evidence.hears && evidence.state == Some(State::Alive);
    let connected = match evidence.link {
        LinkState::Up => true,
        LinkState::Down => vouched && evidence.by_way,
        LinkState::NotKept => vouched,
    };
    if connected && evidence.behind > 0 {
        return Mark::Synchronizing;
    }
    if connected {
        return Mark::Connected;
    }
    if evidence.standing == StandingWord::Failed {
        return Mark::Failed;
    }
    if evidence.introduced || evidence.reach == Reach::Direct {
        Mark::Autonomous
    } else {
        Mark::Unknown
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALIVE: Evidence = Evidence {
        standing: StandingWord::Attached,
        link: LinkState::NotKept,
        state: Some(State::Alive),
        reach: Reach::Untried,
        by_way: false,
        hears: true,
        introduced: true,
        behind: 0,
    };

    #[test]
    fn nobody_is_connected_without_a_proof() {
        let check = |evidence: Evidence, expected: Mark| {
            assert_eq!(mark(evidence), expected, "{evidence:?}");
        };
        check(ALIVE, Mark::Connected);
        check(
            Evidence {
                hears: false,
                ..ALIVE
            },
            Mark::Autonomous,
        );
        check(
            Evidence {
                state: Some(State::Suspect),
                ..ALIVE
            },
            Mark::Autonomous,
        );
        check(
            Evidence {
                state: Some(State::Away),
                ..ALIVE
            },
            Mark::Autonomous,
        );
        check(
            Evidence {
                state: None,
                introduced: false,
                ..ALIVE
            },
            Mark::Unknown,
        );
        check(
            Evidence {
                state: Some(State::Left),
                ..ALIVE
            },
            Mark::Autonomous,
        );
        let down = Evidence {
            link: LinkState::Down,
            ..ALIVE
        };
        check(down, Mark::Autonomous);
        check(
            Evidence {
                by_way: true,
                ..down
            },
            Mark::Connected,
        );
        check(
            Evidence {
                by_way: true,
                hears: false,
                ..down
            },
            Mark::Autonomous,
        );
        let up = Evidence {
            link: LinkState::Up,
            state: Some(State::Away),
            hears: false,
            ..ALIVE
        };
        check(up, Mark::Connected);
        check(Evidence { behind: 3, ..up }, Mark::Synchronizing);
    }

    #[test]
    fn what_operators_decide_stands_over_what_is_heard() {
        let up = Evidence {
            link: LinkState::Up,
            ..ALIVE
        };
        let decided = |standing| mark(Evidence { standing, ..up });
        assert_eq!(decided(StandingWord::Fenced), Mark::Fenced);
        assert_eq!(decided(StandingWord::Detached), Mark::Disconnected);
        assert_eq!(decided(StandingWord::Removed), Mark::Disconnected);
        assert_eq!(decided(StandingWord::Failed), Mark::Connected, "it is back");
        let silent = Evidence {
            standing: StandingWord::Failed,
            state: Some(State::Away),
            ..ALIVE
        };
        assert_eq!(mark(silent), Mark::Failed);
    }
}
