//! The checksums of metadata: CRC-32C (Castagnoli), as the kernel's `crc32c_le`, which neither begins
//! nor ends with a complement; and the CRC-32 of the oldest journals, as its `crc32_be`.

/// The table of [`crc32c`]: its polynomial, lowest bit first.
const CASTAGNOLI: [u32; 256] = {
    let mut table = [0; 256];
    let mut at = 0;
    let mut start = 0;
    while at < 256 {
        let mut value: u32 = start;
        let mut bit = 0;
        while bit < 8 {
            value = (value >> 1) ^ ((value & 1) * 0x82F6_3B78);
            bit += 1;
        }
        table[at] = value;
        at += 1;
        start += 1;
    }
    table
};

/// The CRC-32C of `bytes`, which follow those that gave `crc`; `!0` before the first.
pub(super) fn crc32c(crc: u32, bytes: &[u8]) -> u32 {
    bytes.iter().fold(crc, |crc, byte| {
        let [lowest, ..] = crc.to_le_bytes();
        (crc >> 8) ^ CASTAGNOLI[usize::from(lowest ^ byte)]
    })
}

/// As [`crc32c`], of bytes of which those at `hole` count as zero, where the checksum itself stands.
pub(super) fn crc32c_without(crc: u32, bytes: &[u8], hole: usize, length: usize) -> u32 {
    let (before, rest) = bytes.split_at(hole.min(bytes.len()));
    let (own, after) = rest.split_at(length.min(rest.len()));
    let crc = crc32c(crc, before);
    let crc = own.iter().fold(crc, |crc, _| crc32c(crc, &[0]));
    crc32c(crc, after)
}

/// The CRC-32 (IEEE 802.3) of `bytes`, highest bit first.
pub(super) fn crc32_be(crc: u32, bytes: &[u8]) -> u32 {
    bytes.iter().fold(crc, |crc, byte| {
        (0..8).fold(crc ^ (u32::from(*byte) << 24), |crc, _| {
            (crc << 1) ^ ((crc >> 31) * 0x04C1_1DB7)
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_check_values_of_both_polynomials_come_out() {
        // CRC-32C and CRC-32/MPEG-2 of the catalogue of parametrised CRC algorithms.
        assert_eq!(!crc32c(!0, b"123456789"), 0xE306_9283);
        assert_eq!(crc32_be(!0, b"123456789"), 0x0376_E6E7);
        let without = crc32c_without(!0, b"12xx56789", 2, 2);
        assert_eq!(without, crc32c(!0, b"12\0\x0056789"));
    }
}
