package zoo_test

import (
	"cmp"
	"slices"
	"strings"
	"testing"

	"github.com/homeostat/homeostat/internal/proof/zoo"
	"github.com/homeostat/homeostat/reconcile/reconciletest"
)

// reasons has the code of the reason for each bug. It is "" if only a rule of
// the case is broken, which has no reason, and "a|b" if it depends on which
// deviation finds the bug first.
var reasons = map[string]string{
	"ready before the work":                            "unknown-reply",
	"one of two stands for both":                       "unknown-reply",
	"a name by chance, written down afterwards":        "second-name",
	"what is there already is a failure":               "unknown-reply",
	"an error is swallowed":                            "not-retried",
	"comes again at once when told to wait":            "impatient",
	"the cache knows no key, so there is none":         "second-name",
	"the next number by the cache":                     "",
	"cleans up what its cache shows":                   "past-cache",
	"cleans up when it sees the App gone":              "missed-while-down",
	"takes the key away in the event handler":          "missed-while-down",
	"cleans up by name":                                "wrong-object",
	"starts what a stale list shows":                   "past-cache",
	"edits what the lister gave":                       "modified",
	"a helper merges into its argument":                "modified",
	"does not wait for its caches":                     "unsynced",
	"waits for its caches, but not forever":            "unsynced",
	"the newest resourceVersion on an old copy":        "overwrites",
	"a merge patch replaces a list":                    "overwrites",
	"an owner in another namespace":                    "collected",
	"no owner at all":                                  "",
	"remembers by name":                                "forgotten",
	"expects what has failed":                          "not-retried",
	"works on after the leadership":                    "not-leader",
	"releases the Lease before its last write":         "not-leader",
	"counts its reconciles":                            "wakes-itself|seldom",
	"notes the time of each look":                      "overdue|writes-again",
	"two answers in one controller":                    "wakes-itself|seldom",
	"writes the whole map":                             "wakes-itself|seldom",
	"what it cleans up must be there":                  "unknown-reply",
	"will not clean up what is invalid":                "",
	"does not watch what it makes":                     "unwatched",
	"does not hear of deletions":                       "not-restored",
	"does not watch what it reads":                     "unwatched",
	"takes no notice of a deletion that was missed":    "missed-deletion",
	"the first that it sees is the first":              "overdue|writes-again",
	"the number of keys is the next name":              "not-restored",
	"observedGeneration of another copy than the work": "past-cache|changed-meanwhile",
	"leaves a goroutine behind":                        "left-behind",
}

// misled returns the reason that a report should have given, and has not.
func misled(r *reconciletest.Report, name string) string {
	want := reasons[name]
	if slices.Contains(strings.Split(want, "|"), r.Reason) {
		return ""
	}
	return cmp.Or(want, "none")
}

func TestEachBugHasItsReason(t *testing.T) {
	for _, s := range zoo.Catalogue() {
		if _, known := reasons[s.Name]; !known {
			t.Errorf("%q has none", s.Name)
		}
	}
	if len(reasons) != len(zoo.Catalogue()) {
		t.Errorf("%d reasons, and %d bugs", len(reasons), len(zoo.Catalogue()))
	}
}
