// Package stage runs the tests of the examples, either against a simulated API
// server in virtual time, or against the real one with the permissions that the
// example ships:
//
//	stage.Simulate(t, nil, func(w *stage.World) {
//		run := w.Start(newController)
//		w.Expect(w.Writes()).To(BeEmpty())
//	})
//
//	Maker ──▶ World.Start   (Simulate: a bubble of virtual time)      ──▶ Run: controller, its writes, Stop
//	      └─▶ Cluster.Start (Deploy: bin/controlplane and the manifests) ─▶ the same
//
// The contract:
//
//   - Controllers are stopped at the end of the test or the spec, and must have
//     ended without an error, unless the test has stopped them itself.
//   - All requests of a controller pass through a wiretap.
package stage
