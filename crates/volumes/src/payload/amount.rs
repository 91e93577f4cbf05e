/// An amount of a resource, exact to a billionth.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Amount(u128);

const BILLIONTHS_PER_THOUSANDTH: u128 = 1_000_000;
const BILLIONTHS_PER_UNIT: u128 = 1_000_000_000;

/// The grain that a resource is counted in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Grain {
    Thousandths,
    Units,
}

impl Amount {
    /// One unit: the divisor of those who name none.
    pub const ONE: Self = Self(BILLIONTHS_PER_UNIT);

    /// So many billionths.
    #[must_use]
    pub const fn from_billionths(billionths: u128) -> Self {
        Self(billionths)
    }

    /// So many thousandths: `100m` of a processor is 100.
    #[must_use]
    pub const fn from_thousandths(thousandths: u64) -> Self {
        Self(thousandths as u128 * BILLIONTHS_PER_THOUSANDTH)
    }

    /// So many units: bytes of memory, whole processors.
    #[must_use]
    pub const fn from_units(units: u64) -> Self {
        Self(units as u128 * BILLIONTHS_PER_UNIT)
    }

    /// Nothing at all.
    #[must_use]
    pub const fn is_zero(self) -> bool {
        self.0 == 0
    }

    /// How often the divisor goes into it, rounded up, after both were rounded up to the grain.
    /// A divisor of nothing counts as one unit.
    pub(crate) fn divided_by(self, divisor: Self, grain: Grain) -> u128 {
        let grain = match grain {
            Grain::Thousandths => BILLIONTHS_PER_THOUSANDTH,
            Grain::Units => BILLIONTHS_PER_UNIT,
        };
        let divisor = if divisor.is_zero() { Self::ONE } else { divisor };
        self.0.div_ceil(grain).div_ceil(divisor.0.div_ceil(grain).max(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1024 * 1024;

    #[test]
    fn processors_are_counted_in_thousandths_and_rounded_up() {
        let divide = |cpu, divisor| {
            Amount::from_thousandths(cpu).divided_by(Amount::from_thousandths(divisor), Grain::Thousandths)
        };
        assert_eq!(divide(100, 1), 100);
        assert_eq!(divide(100, 1000), 1);
        assert_eq!(divide(1000, 1000), 1);
        assert_eq!(divide(1001, 1000), 2);
        assert_eq!(divide(0, 1), 0);
        assert_eq!(divide(1500, 0), 2, "no divisor is one unit");
        assert_eq!(Amount::from_billionths(1).divided_by(Amount::from_thousandths(1), Grain::Thousandths), 1);
    }

    #[test]
    fn memory_is_counted_in_bytes_and_rounded_up() {
        let memory = Amount::from_units(64 * MIB);
        assert_eq!(memory.divided_by(Amount::ONE, Grain::Units), 67_108_864);
        assert_eq!(memory.divided_by(Amount::from_units(MIB), Grain::Units), 64);
        assert_eq!(memory.divided_by(Amount::from_units(1_000_000), Grain::Units), 68);
        // A divisor below one byte is one byte.
        assert_eq!(Amount::from_thousandths(1500).divided_by(Amount::from_thousandths(1), Grain::Units), 2);
    }
}
