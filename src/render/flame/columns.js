/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Columns of numbers as the data carries them: base64 digits, five bits in each, lowest first, the
 * sixth bit set in all but the last digit of a number.
 */
const DIGIT_VALUES = new Uint8Array(128);
for (const [value, digit] of
  [...'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/'].entries())
  DIGIT_VALUES[digit.charCodeAt(0)] = value;

/* Fills `numbers` from the text; products, not shifts, because values go up to 2^53. */
function readColumn(text, numbers) {
  let at = 0;
  for (let i = 0; i < numbers.length; i++) {
    let value = 0, weight = 1, digit;
    do {
      digit = DIGIT_VALUES[text.charCodeAt(at++)];
      value += (digit & 31) * weight;
      weight *= 32;
    } while (digit & 32);
    numbers[i] = value;
  }
  return numbers;
}

/* The sign is in the lowest bit, and negative numbers count from -1. */
function readSignedColumn(text, numbers) {
  readColumn(text, numbers);
  for (let i = 0; i < numbers.length; i++)
    numbers[i] = numbers[i] % 2 === 1 ? -(numbers[i] + 1) / 2 : numbers[i] / 2;
  return numbers;
}
