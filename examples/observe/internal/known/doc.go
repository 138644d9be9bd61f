// Package known lists the names that the outside world knows, as a program
// prints them: the input of a [names.Sweep].
//
//		program ──lines──▶ Parse ── all names, or an error ──▶ names.Sweep
//
//	  - All or nothing: a program that fails, prints too much or prints one line that
//	    is no name has listed no names. What is not understood may be the name of a
//	    live object.
//	  - Nothing of the program outlives the listing.
package known
