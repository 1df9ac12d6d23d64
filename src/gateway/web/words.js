/* SPDX-License-Identifier: Apache-2.0 */
/* Failures in the words of the page: the gateway's own are for programs, which have its URLs and parameters. */

const GONE = 'It has ended, was started again with another pid, or has no agent. The list of targets has those that are there now, and what was kept of others; '
  + 'heapctl ps --all lists all processes.';
const WRONG_VALUE = 'The address of this view has a value that it cannot have', CHOOSE = 'Choose again, or open the view anew from its tab.';

/* [a pattern of the message, the message instead, the hint instead] */
const WORDS = [
  [/^there is no (?:target '.*'|process \d+)$/, '$&', GONE],
  [/^.* has gone$/, '$&', GONE],
  [/^.*there is no run (\d+)$/, 'Run $1 is not kept', 'Runs are kept until newer ones need their place, and as long as their process. Choose one that is listed, or what is in use now.'],
  [/^run (\d+) is still on$/, 'Run $1 is still on', 'Wait for its end, or stop it on the overview.'],
  [/^.* must be (?:one of|a whole number|the id of a run) .*, not ('.*')$/, `${WRONG_VALUE}: $1`, CHOOSE],
  [/^(?:there is no parameter '|the parameter \w+ is missing|\w+ must be the id of a run).*$/, WRONG_VALUE, CHOOSE],
  [/^(no function .*) \(--text .*\)$/, '$1', 'The table lists the functions.'],
  [/^(no thread of .*) \(--thread=.*\)$/, '$1', 'Leave the field of the thread empty for all of them.'],
  [/^('.*' is not a range of sizes) \(.*\)$/, '$1', 'Write 64kb:1mb, 4096: or :4096.'],
];

/* A search without a capital letter has an option in front, which the user has not typed. */
const withoutOption = text => text.replace(/'\(\?i\)(.*)' at character (\d+)/, (_, pattern, at) => `'${pattern}' at character ${at - 4}`);

export function inWords({ message, hint }) {
  const [pattern, text, instead] = WORDS.find(([each]) => each.test(message)) ?? [];
  return pattern ? { message: message.replace(pattern, text), hint: instead } : { message: withoutOption(message), hint };
}
