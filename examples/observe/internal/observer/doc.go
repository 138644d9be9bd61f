// Package observer runs a program for every object of a kind, and again
// whenever an object changes. It is a reconciler that runs the user's script:
//
//	o, err := observer.New(objects, live, runner, observer.Progress{}, observer.Options{Each: argv})
//	err = o.Run(ctx)
//
//	informer ──key──▶ reconcile: object exists ── yes ──▶ COMMAND ARG... namespace name template...
//	names ───orphan─▶              └── no, and the server agrees ──▶ DELETE ARG... namespace name
//
// The contract:
//
//   - A reconcile uses the newest state. Several changes during a command or a
//     wait cause one reconcile. Only one command runs at a time per key.
//   - A failed command is repeated with back-off until it succeeds. After a
//     fault that repetition cannot cure, it waits until the object changes.
//   - The server confirms each deletion before the delete command runs. An
//     object that has only left the selection is not deleted.
//   - If names cannot be listed, or are implausible, no object is deleted.
package observer
