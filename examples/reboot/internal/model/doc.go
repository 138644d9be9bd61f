// Package model contains the tests that prove the reboot operator.
//
// The real controllers and agents run against a simulated API server in virtual
// time. Explorations try a fault at every call and event of small cases, one
// after the other. The model has a seeded schedule. The schedule decides which
// call is served next, which call is lost, answered twice or delayed, which
// process dies, and what administrators, kubelets and machines do in the
// meantime.
//
//	2 controllers, n agents ──▶ simulated API server ──▶ monitor: I1–I11 after every commit
//	      ▲ crash, restart         ▲                        ▲
//	      └──────── seeded schedule: admin, kubelets, machines ── then calm ──▶ L1
//
// The method:
//   - The monitor knows the real state of the machines. It shares no decision
//     with the operator.
//   - A failed exploration prints a token for reconciletest.Replay, and a
//     failed run of the model prints its seed for the flag -seed.
//   - With the build tag mutate, an overlay removes each safeguard from the
//     sources, one at a time. Then a named invariant must break: in an
//     exploration, in the model if no single fault breaks it, or in worlds of
//     the whole operator if it is about time. For example, I13 breaks without
//     the time after which an agent counts as dead.
//   - The worlds of the whole operator have no schedule: two controllers, an
//     agent for each node, and machines with clocks of their own run
//     concurrently.
package model
