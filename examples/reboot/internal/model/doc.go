// Package model has the proof of the reboot operator: its tests.
//
// The real controllers and agents run against a simulated API server in virtual
// time. A seeded schedule decides which call is served next, which is lost,
// answered twice or carried out late, who dies, and what administrators, kubelets
// and machines do meanwhile.
//
//	2 controllers, n agents ──▶ simulated API server ──▶ monitor: I1–I7 after every commit
//	      ▲ crash, restart         ▲                        ▲
//	      └──────── seeded schedule: admin, kubelets, machines ── then calm ──▶ L1
//
// What holds:
//   - The monitor knows the truth about machines; it shares no decision with the
//     operator.
//   - A failure prints its seed; the test replays it with the flag -seed.
//   - With the build tag mutate each safeguard is taken out, one at a time, and a
//     named invariant must break.
package model
