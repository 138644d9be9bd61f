// Package model has the proof of the reboot operator: its tests.
//
// The real controllers and agents run against a simulated API server in virtual
// time. Explorations try a fault at every call and event of small cases, one
// after the other. The model has a seeded schedule, which decides which call is
// served next, which is lost, answered twice or carried out late, which process
// dies, and what administrators, kubelets and machines do meanwhile.
//
//	2 controllers, n agents ──▶ simulated API server ──▶ monitor: I1–I11 after every commit
//	      ▲ crash, restart         ▲                        ▲
//	      └──────── seeded schedule: admin, kubelets, machines ── then calm ──▶ L1
//
// What holds:
//   - The monitor knows the truth about machines; it shares no decision with the
//     operator.
//   - A failure of an exploration prints a token for reconciletest.Replay, one of
//     the model its seed for the flag -seed.
//   - With the build tag mutate each safeguard is taken out of the sources, one
//     at a time and by an overlay, and a named invariant must break: in an
//     exploration, and in the model where no single fault shows it.
package model
