/// A field of KubeletConfiguration, and what `wardlet agent` does with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Field {
    /// Its dotted path; `[]` stands for each item of a list.
    pub path: &'static str,
    /// Its type.
    pub kind: Kind,
    /// Whether zero and the empty string are values of their own, and not the default.
    pub keeps_zero: bool,
    /// Its default with a configuration file, as a flag would set it; empty if there is none.
    pub default: &'static str,
    /// What `wardlet agent` does with it.
    pub class: Class,
}

/// The type of a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// `true` or `false`.
    Bool,
    /// A whole number of 32 bits.
    Int32,
    /// A whole number of 64 bits.
    Int64,
    /// Any number.
    Float,
    /// Text.
    Text,
    /// Text that is one of these.
    OneOf(&'static [&'static str]),
    /// A path. In the main file a relative one is relative to that file.
    Path,
    /// A duration.
    Duration,
    /// A duration, or a number of nanoseconds.
    DurationOrNanoseconds,
    /// An amount, as text or as a number.
    Quantity,
    /// A list of text.
    TextList,
    /// A list of whole numbers.
    IntList,
    /// A map to text.
    TextMap,
    /// A map to `true` and `false`.
    BoolMap,
    /// A map to lists of text.
    TextListMap,
    /// Further fields, each with a row of its own.
    Object,
    /// A list of objects, whose fields have rows of their own.
    ObjectList,
}

/// What `wardlet agent` does with a field or a flag.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// The agent is to do what a kubelet does.
    Honoured {
        /// Limits of that, if there are any.
        note: &'static str,
    },
    /// Any valid value is accepted and changes nothing. A value that is not the default is logged.
    NoEffect {
        /// Why it changes nothing.
        reason: &'static str,
    },
    /// The agent is to do what a kubelet does, and lacks it so far. A value that is not the default is logged.
    NotYet {
        /// What it lacks.
        what: &'static str,
    },
    /// Only the default is accepted.
    Refused {
        /// Values that are accepted beside the default.
        also: &'static [&'static str],
        /// What the agent lacks.
        reason: &'static str,
        /// What to do instead.
        hint: &'static str,
    },
}

impl Kind {
    /// The type for a reader, in a few words.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Bool => "true or false",
            Self::Int32 | Self::Int64 => "a whole number",
            Self::Float => "a number",
            Self::Text | Self::OneOf(_) => "text",
            Self::Path => "a path",
            Self::Duration => "a duration such as 1m30s",
            Self::DurationOrNanoseconds => "a duration such as 5s",
            Self::Quantity => "a quantity such as 10Mi",
            Self::TextList => "a list of text",
            Self::IntList => "a list of whole numbers",
            Self::TextMap => "a map to text",
            Self::BoolMap => "a map to true and false",
            Self::TextListMap => "a map to lists of text",
            Self::Object => "a map of fields",
            Self::ObjectList => "a list of maps",
        }
    }
}

impl Field {
    /// Zero and the empty string are values of their own: the Go field is a pointer.
    pub(super) const fn keeps_zero(mut self) -> Self {
        self.keeps_zero = true;
        self
    }

    /// The agent honours the field within limits.
    pub(super) const fn note(mut self, note: &'static str) -> Self {
        self.class = Class::Honoured { note };
        self
    }

    /// The field is accepted and changes nothing.
    pub(super) const fn no_effect(mut self, reason: &'static str) -> Self {
        self.class = Class::NoEffect { reason };
        self
    }

    /// The agent does not have this yet.
    pub(super) const fn not_yet(mut self, what: &'static str) -> Self {
        self.class = Class::NotYet { what };
        self
    }

    /// Only the default is accepted.
    pub(super) const fn refused(mut self, reason: &'static str, hint: &'static str) -> Self {
        self.class = Class::Refused { also: &[], reason, hint };
        self
    }

    /// These values are accepted beside the default of a refused field.
    pub(super) const fn also(mut self, values: &'static [&'static str]) -> Self {
        if let Class::Refused { reason, hint, .. } = self.class {
            self.class = Class::Refused { also: values, reason, hint };
        }
        self
    }

    /// Whether it is a field of the items of a list.
    pub(super) fn is_in_list(&self) -> bool {
        self.path.contains("[]")
    }
}

/// A field that the agent honours, unless a method above says otherwise.
pub(super) const fn field(path: &'static str, kind: Kind, default: &'static str) -> Field {
    Field { path, kind, keeps_zero: false, default, class: Class::Honoured { note: "" } }
}

/// A field that holds other fields.
pub(super) const fn section(path: &'static str) -> Field {
    field(path, Kind::Object, "")
}
