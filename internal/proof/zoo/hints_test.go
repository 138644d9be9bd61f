package zoo_test

import (
	"strings"
	"testing"

	"github.com/homeostat/homeostat/internal/proof/zoo"
)

const (
	halfDone  = "a timeout does not say that nothing was written: a second try has to take what is there"
	generated = "a second try, or an old cache, gives a second object when the server makes up the name"
	oldCopy   = "it writes from an old copy: patch only your own fields"
	shared    = "objects of a cache are shared: copy before you edit"
	attempt   = "an error of one call must lead to another attempt"
	loops     = "a reconciler that writes every time wakes itself"
	first     = "the first reconcile of an object writes although nothing is to do"
	offline   = "changes while the program is down give no event"
	synced    = "it acts before all of its caches are filled"
	fence     = "a leader that may have lost its Lease must not write"
	watches   = "give the controller a trigger for every kind that it reads or writes"
	undone    = "nothing restores the deleted object: is there a trigger"
)

// hints has the first words of the hint for each bug; "" if there is none, since only a rule of the case is broken;
// "a|b" if it depends on which deviation finds it first.
var hints = map[string]string{
	"ready before the work":                            halfDone,
	"one of two stands for both":                       halfDone,
	"a name by chance, written down afterwards":        generated,
	"what is there already is a failure":               halfDone,
	"an error is swallowed":                            attempt,
	"comes again at once when told to wait":            "the error says when to retry",
	"the cache knows no key, so there is none":         generated,
	"the next number by the cache":                     "",
	"cleans up what its cache shows":                   "a cache may be of the past after a restart: ask the server itself",
	"cleans up when it sees the App gone":              offline,
	"takes the key away in the event handler":          offline,
	"cleans up by name":                                "a cache may be of the past after a restart: give deletes the UID",
	"starts what a stale list shows":                   "a cache may be of the past after a restart: ask the server itself",
	"edits what the lister gave":                       shared,
	"a helper merges into its argument":                shared,
	"does not wait for its caches":                     synced,
	"waits for its caches, but not forever":            synced,
	"the newest resourceVersion on an old copy":        oldCopy,
	"a merge patch replaces a list":                    oldCopy,
	"an owner in another namespace":                    "the garbage collector deletes the objects that it makes",
	"no owner at all":                                  "",
	"remembers by name":                                "it decides by its memory, and a restart forgets that",
	"expects what has failed":                          attempt,
	"works on after the leadership":                    fence,
	"releases the Lease before its last write":         fence,
	"counts its reconciles":                            loops,
	"notes the time of each look":                      first,
	"two answers in one controller":                    loops,
	"writes the whole map":                             loops,
	"what it cleans up must be there":                  halfDone,
	"will not clean up what is invalid":                "",
	"does not watch what it makes":                     watches,
	"does not hear of deletions":                       undone,
	"does not watch what it reads":                     watches,
	"takes no notice of a deletion that was missed":    "a cache of your own has to be listed again",
	"the first that it sees is the first":              first,
	"the number of keys is the next name":              undone,
	"observedGeneration of another copy than the work": "a cache may be of the past after a restart: ask the server itself|the object changed",
	"leaves a goroutine behind":                        "Run has to wait for every goroutine that it starts",
}

// misled reports which hint a failure should have had, and has not.
func misled(failure, name string) string {
	want := hints[name]
	if want == "" && strings.Contains(failure, "hint: ") {
		return "none"
	}
	for one := range strings.SplitSeq(want, "|") {
		if strings.Contains(failure, "hint: "+one) || want == "" {
			return ""
		}
	}
	return want
}

func TestEachBugHasItsHint(t *testing.T) {
	for _, s := range zoo.Catalogue() {
		if _, known := hints[s.Name]; !known {
			t.Errorf("%q has none", s.Name)
		}
	}
	if len(hints) != len(zoo.Catalogue()) {
		t.Errorf("%d hints, and %d bugs", len(hints), len(zoo.Catalogue()))
	}
}
