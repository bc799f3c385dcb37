//! The hashes of names (`fs/ext4/hash.c`): by them the index of a large folder is ordered.

/// How names are hashed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Version {
    kind: Kind,
    /// Whether bytes are from -128 to 127.
    is_signed: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Legacy,
    HalfMd4,
    Tea,
}

impl Version {
    /// The version that an index has, by the file system's own signs; none if they are not known, or
    /// the hash is another one.
    pub(super) fn parse(version: u8, is_signed: Option<bool>) -> Option<Self> {
        let (kind, is_signed) = match version {
            0 => (Kind::Legacy, is_signed?),
            1 => (Kind::HalfMd4, is_signed?),
            2 => (Kind::Tea, is_signed?),
            3 => (Kind::Legacy, false),
            4 => (Kind::HalfMd4, false),
            5 => (Kind::Tea, false),
            _ => return None,
        };
        Some(Self { kind, is_signed })
    }

    fn number(self, byte: u8) -> u32 {
        if self.is_signed {
            i32::from(byte.cast_signed()).cast_unsigned()
        } else {
            byte.into()
        }
    }
}

/// The hash of a name, whose lowest bit is 0. A `seed` of zeros is the usual one.
pub(super) fn hash(version: Version, seed: [u32; 4], name: &[u8]) -> u32 {
    let mut state = match seed {
        [0, 0, 0, 0] => [0x6745_2301, 0xEFCD_AB89, 0x98BA_DCFE, 0x1032_5476],
        seed => seed,
    };
    let hash = match version.kind {
        Kind::Legacy => legacy(version, name),
        Kind::HalfMd4 => {
            let mut rest = name;
            while !rest.is_empty() {
                half_md4(&mut state, &words::<8>(version, rest));
                rest = rest.get(32..).unwrap_or_default();
            }
            state[1]
        }
        Kind::Tea => {
            let mut rest = name;
            while !rest.is_empty() {
                tea(&mut state, words(version, rest));
                rest = rest.get(16..).unwrap_or_default();
            }
            state[0]
        }
    };
    // The highest one is the end of a folder.
    match hash & !1 {
        0xFFFF_FFFE => 0xFFFF_FFFC,
        hash => hash,
    }
}

fn legacy(version: Version, name: &[u8]) -> u32 {
    let (mut last, mut before) = (0x12A3_FE2D_u32, 0x37AB_E8F9_u32);
    for byte in name {
        let product = version.number(*byte).wrapping_mul(7_152_373);
        let mut next = before.wrapping_add(last ^ product);
        if next & 0x8000_0000 != 0 {
            next = next.wrapping_sub(0x7FFF_FFFF);
        }
        (last, before) = (next, last);
    }
    last << 1
}

/// The next words of a name, filled up with the length of what is left of it.
fn words<const N: usize>(version: Version, rest: &[u8]) -> [u32; N] {
    // Names are shorter than 256 bytes.
    let length = u32::try_from(rest.len()).unwrap_or(u32::MAX);
    let fill = length | length << 8;
    let fill = fill | fill << 16;
    let mut words = [fill; N];
    for (word, bytes) in words.iter_mut().zip(rest.chunks(4)) {
        *word = bytes.iter().fold(fill, |word, byte| {
            version.number(*byte).wrapping_add(word << 8)
        });
    }
    words
}

fn half_md4(state: &mut [u32; 4], input: &[u32; 8]) {
    /// The functions of the three rounds, what they add, by how much they rotate, and the order of
    /// words.
    type Round = (fn(u32, u32, u32) -> u32, u32, [u32; 4], [usize; 8]);
    const ROUNDS: [Round; 3] = [
        (
            |x, y, z| z ^ (x & (y ^ z)),
            0,
            [3, 7, 11, 19],
            [0, 1, 2, 3, 4, 5, 6, 7],
        ),
        (
            |x, y, z| (x & y).wrapping_add((x ^ y) & z),
            0x5A82_7999,
            [3, 5, 9, 13],
            [1, 3, 5, 7, 0, 2, 4, 6],
        ),
        (
            |x, y, z| x ^ y ^ z,
            0x6ED9_EBA1,
            [3, 9, 11, 15],
            [3, 7, 2, 6, 1, 5, 0, 4],
        ),
    ];
    let [mut a, mut b, mut c, mut d] = *state;
    for (mix, constant, rotations, order) in ROUNDS {
        for (nth, word) in order.into_iter().enumerate() {
            let sum = a
                .wrapping_add(mix(b, c, d))
                .wrapping_add(input[word])
                .wrapping_add(constant);
            // The next step changes the word before this one.
            (a, b, c, d) = (d, sum.rotate_left(rotations[nth % 4]), b, c);
        }
    }
    for (word, more) in state.iter_mut().zip([a, b, c, d]) {
        *word = word.wrapping_add(more);
    }
}

fn tea(state: &mut [u32; 4], [a, b, c, d]: [u32; 4]) {
    let mut sum = 0_u32;
    let (mut first, mut second) = (state[0], state[1]);
    for _ in 0..16 {
        sum = sum.wrapping_add(0x9E37_79B9);
        let mixed = (second << 4).wrapping_add(a)
            ^ second.wrapping_add(sum)
            ^ (second >> 5).wrapping_add(b);
        first = first.wrapping_add(mixed);
        let mixed =
            (first << 4).wrapping_add(c) ^ first.wrapping_add(sum) ^ (first >> 5).wrapping_add(d);
        second = second.wrapping_add(mixed);
    }
    state[0] = state[0].wrapping_add(first);
    state[1] = state[1].wrapping_add(second);
}
