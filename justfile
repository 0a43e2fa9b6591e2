# Chores by name. Each is one command that can be typed as well; nothing is decided here.

# List the chores
default:
    @just --list

# Every test
test:
    cargo test --workspace

# All that has to hold before a change lands
ci:
    bash .ci/run

# Sites, sample services and dashboard on this machine
demo:
    cargo run --release -- demo

# Layers, purity and habits
tidy:
    cargo xtask tidy

# Format
fmt:
    cargo fmt --all

# Lints, as strict as ci
lint:
    cargo clippy --workspace --all-targets -- -D warnings

# How fast scopes are read
bench-scope:
    cargo bench -p cheops-scope

# Feed the scope parser until it breaks (nightly, cargo-fuzz)
fuzz-scope:
    cargo +nightly fuzz run scope
