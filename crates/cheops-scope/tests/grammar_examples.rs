//! Every example of `GRAMMAR.md`, run.

// A test may unwrap, and so may what it calls.
#![allow(clippy::unwrap_used)]

mod common;

use cheops_scope::{Checked, Resolved, Scope, ScopeError, World, parse};

/// A fenced block: what it says it is, what it holds, where it stands.
struct Block<'a> {
    kind: &'a str,
    about: &'a str,
    text: String,
    line: usize,
}

#[test]
fn every_example_does_what_the_page_says() {
    let world = common::world("sites");
    let mut last = None;
    let blocks = blocks(include_str!("../GRAMMAR.md"));
    for block in &blocks {
        let at = format!("GRAMMAR.md:{}", block.line);
        match block.kind {
            "scope" => last = Some(resolve(&block.text, &world).expect(&at)),
            "scope-error" => {
                let error = resolve(&block.text, &world).expect_err(&at);
                assert_eq!(error.kind.word(), block.about, "{at}");
            }
            "canonical" => {
                let (checked, _) = last.as_ref().expect("a scope stands before");
                assert_eq!(checked.scope().to_string(), block.text, "{at}");
            }
            "plan" => {
                let (_, resolved) = last.as_ref().expect("a scope stands before");
                check_plan(resolved, block, &at);
            }
            other => panic!("{at}: `{other}` is no kind of example"),
        }
    }
    let count = |kind| blocks.iter().filter(|block| block.kind == kind).count();
    assert!(count("scope") >= 20 && count("plan") >= 10 && count("scope-error") >= 10);
}

#[test]
fn every_function_is_on_the_page() {
    for function in cheops_scope::function_help() {
        let name = function.usage.split('(').next().expect("it has a name");
        let row = format!("| `{name}(");
        assert!(include_str!("../GRAMMAR.md").contains(&row), "{name}");
    }
}

fn resolve(text: &str, world: &World) -> Result<(Checked, Resolved), ScopeError> {
    let checked = parse(text).and_then(Scope::check)?;
    let resolved = checked.resolve(world)?;
    Ok((checked, resolved))
}

fn check_plan(resolved: &Resolved, block: &Block<'_>, at: &str) {
    let service = block.about.parse().expect("the block names a service");
    let plan = resolved.plan_of(&service).expect(at);
    let expected: serde_json::Value = serde_json::from_str(&block.text).expect(at);
    assert_eq!(serde_json::to_value(plan).unwrap(), expected, "{at}");
}

fn blocks(page: &str) -> Vec<Block<'_>> {
    let mut blocks = Vec::new();
    let mut lines = page.lines().enumerate();
    while let Some((number, line)) = lines.next() {
        let Some(mark) = line.strip_prefix("```") else {
            continue;
        };
        let (kind, about) = mark.split_once(' ').unwrap_or((mark, ""));
        let inside = lines
            .by_ref()
            .map(|(_, line)| line)
            .take_while(|line| *line != "```");
        let text = inside.collect::<Vec<_>>().join("\n");
        blocks.push(Block {
            kind,
            about,
            text,
            line: number + 1,
        });
    }
    blocks
}
