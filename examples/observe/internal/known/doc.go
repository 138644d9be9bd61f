// Package known lists the names that the outside world knows. It runs a program
// that prints the names. They are the input of a [names.Sweep]:
//
//	lister := known.Command(known.Format{}, os.Environ(), "./known.sh")
//
//	program ──lines──▶ Parse ── all names, or an error ──▶ names.Sweep
//
// The contract:
//
//   - A listing is complete or fails. It fails if the program fails, prints too
//     much, or prints one line that is not a name, because an invalid line may
//     be the name of a live object.
//   - The program leaves no processes behind.
package known
