// Package conformance plays requests against an API server, real or simulated, and says what matters of the answers,
// with what two servers cannot have in common behind a mask. What a real server has answered is recorded in .golden
// files.
package conformance
