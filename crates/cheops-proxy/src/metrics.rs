//! Counters of the data plane: each thread writes its own, whoever asks adds them up.

use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use cheops_model::ServiceName;
use http::StatusCode;

/// Upper ends of the latency buckets, in microseconds.
const BUCKETS_US: [u64; 12] = [
    100, 250, 500, 1_000, 2_500, 5_000, 10_000, 50_000, 100_000, 500_000, 1_000_000, 10_000_000,
];

/// What one thread counted of one service.
#[derive(Default)]
pub(crate) struct ServiceCounters {
    /// By class: index 2 is 2xx.
    answers: [AtomicU64; 6],
    forwarded: AtomicU64,
    took_us: AtomicU64,
    buckets: [AtomicU64; BUCKETS_US.len() + 1],
}

impl ServiceCounters {
    pub(crate) fn answered(&self, status: StatusCode, took_us: u64) {
        add(&self.answers[usize::from(status.as_u16() / 100).min(5)], 1);
        add(&self.took_us, took_us);
        let bucket = BUCKETS_US.iter().position(|end| took_us <= *end);
        add(&self.buckets[bucket.unwrap_or(BUCKETS_US.len())], 1);
    }

    pub(crate) fn forwarded(&self) {
        add(&self.forwarded, 1);
    }
}

/// One thread writes, so a load and a store are enough: no locked instruction per request.
fn add(counter: &AtomicU64, value: u64) {
    counter.store(
        counter.load(Ordering::Relaxed).wrapping_add(value),
        Ordering::Relaxed,
    );
}

/// The counters of every thread. A service that is gone keeps its own: counters never go back.
#[derive(Clone)]
pub struct Metrics {
    threads: usize,
    /// Locked when the configuration changes, and by whoever reads; never by a request.
    services: Arc<Mutex<Vec<OfService>>>,
}

/// A service's name, and its counters for each thread.
type OfService = (String, Vec<Arc<ServiceCounters>>);

impl Metrics {
    pub(crate) fn new(threads: usize) -> Metrics {
        Metrics {
            threads,
            services: Arc::default(),
        }
    }

    /// The counters of a service on one thread; they stay the same as long as the agent runs.
    pub(crate) fn of(&self, service: &ServiceName, thread: usize) -> Arc<ServiceCounters> {
        let mut services = self.services.lock().unwrap_or_else(PoisonError::into_inner);
        let known = services
            .iter()
            .position(|(name, _)| name == service.as_str());
        let place = known.unwrap_or_else(|| {
            let counters = (0..self.threads).map(|_| Arc::default());
            services.push((service.to_string(), counters.collect()));
            services.len() - 1
        });
        services[place].1[thread].clone()
    }

    fn services(&self) -> Vec<OfService> {
        let services = self.services.lock();
        services.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Answers to clients so far, and of them those with 5xx.
    pub fn answered(&self) -> (u64, u64) {
        let (mut all, mut failed) = (0, 0);
        for (_, threads) in &self.services() {
            let of = |class: usize| sum(threads, |counters| &counters.answers[class]);
            all += (1..=5).map(of).sum::<u64>();
            failed += of(5);
        }
        (all, failed)
    }

    /// Prometheus text.
    pub fn render(&self) -> String {
        let (mut out, services) = (String::new(), self.services());
        head(
            &mut out,
            "cheops_requests_total",
            "counter",
            "Answers to clients, by class.",
        );
        for (service, threads) in &services {
            for class in 1..=5 {
                let total = sum(threads, |counters| &counters.answers[class]);
                let labels = format!("service=\"{service}\",class=\"{class}xx\"");
                let _ = writeln!(out, "cheops_requests_total{{{labels}}} {total}");
            }
        }
        head(
            &mut out,
            "cheops_forwarded_total",
            "counter",
            "Requests sent to another site.",
        );
        for (service, threads) in &services {
            let total = sum(threads, |counters| &counters.forwarded);
            let _ = writeln!(
                out,
                "cheops_forwarded_total{{service=\"{service}\"}} {total}"
            );
        }
        render_latency(&mut out, &services);
        out
    }
}

fn render_latency(out: &mut String, services: &[OfService]) {
    let name = "cheops_request_seconds";
    head(
        out,
        name,
        "histogram",
        "Time from a request's head to its answer's head.",
    );
    for (service, threads) in services {
        let mut total = 0;
        for (index, end) in BUCKETS_US.iter().map(Some).chain([None]).enumerate() {
            total += sum(threads, |counters| &counters.buckets[index]);
            let end = end.map_or("+Inf".to_owned(), |us| (*us as f64 / 1e6).to_string());
            let _ = writeln!(
                out,
                "{name}_bucket{{service=\"{service}\",le=\"{end}\"}} {total}"
            );
        }
        let seconds = sum(threads, |counters| &counters.took_us) as f64 / 1e6;
        let _ = writeln!(out, "{name}_sum{{service=\"{service}\"}} {seconds}");
        let _ = writeln!(out, "{name}_count{{service=\"{service}\"}} {total}");
    }
}

fn head(out: &mut String, name: &str, kind: &str, help: &str) {
    let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} {kind}");
}

fn sum(threads: &[Arc<ServiceCounters>], of: impl Fn(&ServiceCounters) -> &AtomicU64) -> u64 {
    threads
        .iter()
        .map(|counters| of(counters).load(Ordering::Relaxed))
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_are_added_up() {
        let (metrics, image) = (Metrics::new(2), "image".parse().unwrap());
        metrics.of(&image, 0).answered(StatusCode::OK, 90);
        metrics.of(&image, 1).answered(StatusCode::OK, 1_500_000);
        metrics.of(&image, 1).answered(StatusCode::NOT_FOUND, 400);
        let text = metrics.render();
        for line in [
            "cheops_requests_total{service=\"image\",class=\"2xx\"} 2",
            "cheops_requests_total{service=\"image\",class=\"4xx\"} 1",
            "cheops_request_seconds_bucket{service=\"image\",le=\"0.0001\"} 1",
            "cheops_request_seconds_bucket{service=\"image\",le=\"+Inf\"} 3",
            "cheops_request_seconds_count{service=\"image\"} 3",
        ] {
            assert!(text.lines().any(|l| l == line), "{line} in\n{text}");
        }
    }
}
