// Package stage is where the tests of the examples play: against a simulated API
// server in virtual time, or against the real one, under the rights that the
// example ships.
//
//		Maker ──▶ World.Start   (Simulate: a bubble of virtual time)      ──▶ Run: controller, its writes, Stop
//		      └─▶ Cluster.Start (Deploy: bin/controlplane and the manifests) ─▶ the same
//
//	  - What is started is stopped at the end of the test or the spec, and must
//	    have ended without an error unless the test has stopped it itself.
//	  - Everything that a controller sends goes through a wiretap.
package stage
