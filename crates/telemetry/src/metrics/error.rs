/// Why a metric cannot be registered or written. A mistake in the program, or, for a metric that comes from elsewhere, in its
/// input.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// A name has characters that the text format does not allow.
    #[error("metric {name:?}: a name has letters, digits, `_` and `:`, and does not begin with a digit")]
    Name {
        /// The name.
        name: String,
    },
    /// A label has characters that the text format does not allow, or is reserved.
    #[error("metric {name}: label {label:?} is not allowed")]
    Label {
        /// The metric.
        name: String,
        /// The label.
        label: String,
    },
    /// Another metric writes samples of this name.
    #[error("metric {name}: samples of this name are registered already")]
    Duplicate {
        /// The name of the samples: a histogram `x` has `x_bucket`, `x_sum` and `x_count`, too.
        name: String,
    },
    /// A sample has more or fewer values than its metric has labels.
    #[error("metric {name}: a sample has {values} label values, and the metric has {labels} labels")]
    Values {
        /// The metric.
        name: String,
        /// How many labels it has.
        labels: usize,
        /// How many values the sample has.
        values: usize,
    },
    /// Bounds of buckets are finite numbers, each greater than the one before.
    #[error("bounds of buckets must be finite and increase")]
    Buckets,
}
