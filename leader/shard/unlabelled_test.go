package shard_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

const (
	groupLabel = "leader.homeostat.dev/shards"
	kindLabel  = "leader.homeostat.dev/record"
	slotLabel  = "leader.homeostat.dev/slot"
)

// unlabel removes labels from a record, as a person may do, and returns the
// labels that it had.
func (x *fixture) unlabel(name string, labels ...string) map[string]string {
	x.T.Helper()
	for {
		lease, err := x.API.Get(name)
		x.Expect(err).NotTo(HaveOccurred())
		had := lease.DeepCopy().Labels
		for _, label := range labels {
			delete(lease.Labels, label)
		}
		if _, err = x.API.Update(lease); err == nil {
			return had
		}
	}
}

var labelSets = map[string][]string{
	"all": {groupLabel, kindLabel, slotLabel}, "the group": {groupLabel}, "the kind": {kindLabel}, "the slot": {slotLabel},
}

// The fixture checks that no slot ever has two owners.
func TestASlotWhoseRecordLosesItsLabelsStaysWithItsOwner(t *testing.T) {
	for what, labels := range labelSets {
		t.Run(what, func(t *testing.T) {
			inBubble(t, func(x *fixture) {
				a, b := x.shards("a", nil), x.shards("b", nil)
				pass(time.Minute)
				x.MovedSince()
				had := x.unlabel("test-slot-9", labels...)
				pass(time.Minute)
				x.Expect(x.MovedSince()).To(BeZero())
				x.Expect(x.Owned()).To(HaveLen(64))
				if what == "all" || what == "the group" { // without the others the record is found all the same
					lease, err := x.API.Get("test-slot-9")
					x.Expect(err).NotTo(HaveOccurred())
					x.Expect(lease.Labels).To(Equal(had))
					x.Expect(strings.Join(append(a.logs.Read(), b.logs.Read()...), "\n")).To(
						ContainSubstring("labels were removed from a shard record"))
				}
				a.end()
				b.end()
			})
		})
	}
}

func TestASlotWhoseRecordLosesItsLabelsPassesToTheNextOwner(t *testing.T) {
	for what, labels := range labelSets {
		t.Run(what, func(t *testing.T) {
			inBubble(t, func(x *fixture) {
				a, b := x.shards("a", nil), x.shards("b", nil)
				pass(time.Minute)
				a.die()
				for slot, owner := range x.Owned() {
					if owner == "a" {
						x.unlabel(fmt.Sprintf("test-slot-%d", slot), labels...)
					}
				}
				pass(2 * time.Minute)
				x.Expect(x.Shares()).To(Equal(map[string]int{"b": 64}))
				b.end()
			})
		})
	}
}

// A replica that has never seen the record with its labels cannot know whose
// record it is. It may be the Lease of another program.
func TestARecordWithoutLabelsThatWasNeverSeenIsNamedAndNotTaken(t *testing.T) {
	inBubble(t, func(x *fixture) {
		a := x.shards("a", nil)
		pass(time.Minute)
		a.end()
		had := x.unlabel("test-slot-9", groupLabel, kindLabel, slotLabel)
		b := x.shards("b", nil)
		pass(2 * time.Minute)
		x.Expect(x.Owned()).To(HaveLen(63))
		x.Expect(strings.Join(b.logs.Read(), "\n")).To(And(ContainSubstring("test-slot-9"), ContainSubstring("labels")))

		lease, err := x.API.Get("test-slot-9")
		x.Expect(err).NotTo(HaveOccurred())
		lease.Labels = had
		_, err = x.API.Update(lease)
		x.Expect(err).NotTo(HaveOccurred())
		pass(time.Minute)
		x.Expect(x.Owned()).To(HaveLen(64))
		b.end()
	})
}

// relabel sets a label of a record to a value, as a person may do, and returns
// the value that it had.
func (x *fixture) relabel(name, label, value string) (had string) {
	x.T.Helper()
	for {
		lease, err := x.API.Get(name)
		x.Expect(err).NotTo(HaveOccurred())
		had = lease.Labels[label]
		lease.Labels[label] = value
		if _, err = x.API.Update(lease); err == nil {
			return had
		}
	}
}

// What a record is follows from its group and its name, so the other labels
// have no effect.
func TestARecordWithADifferentKindOrSlotIsFoundByItsName(t *testing.T) {
	for label, value := range map[string]string{kindLabel: "member", slotLabel: "7"} {
		t.Run(label, func(t *testing.T) {
			inBubble(t, func(x *fixture) {
				a := x.shards("a", nil)
				pass(time.Minute)
				x.relabel("test-slot-9", label, value)
				b := x.shards("b", nil)
				pass(time.Minute)
				x.Expect(x.Owned()).To(HaveLen(64))
				a.die()
				pass(2 * time.Minute)
				x.Expect(x.Shares()).To(Equal(map[string]int{"b": 64}))
				b.end()
			})
		})
	}
}

// A different group hides the record from the replicas. Without a log line its
// slot would at some time have no owner, and the reason would not be known.
func TestARecordOfADifferentGroupIsNamed(t *testing.T) {
	inBubble(t, func(x *fixture) {
		a := x.shards("a", nil)
		pass(time.Minute)
		had := x.relabel("test-slot-9", groupLabel, "other")
		pass(time.Minute)
		x.Expect(x.Owned()).To(HaveLen(64), "its owner keeps it")
		x.Expect(a.logs.Count(`label leader.homeostat.dev/shards of lease \"test-slot-9\" is \"other\"`)).To(Equal(1))
		b := x.shards("b", nil)
		pass(time.Minute)
		a.die()
		pass(2 * time.Minute)
		x.Expect(x.Owned()).To(HaveLen(63))
		x.Expect(b.logs.Count("taking a slot failed")).To(Equal(1))
		x.relabel("test-slot-9", groupLabel, had)
		pass(time.Minute)
		x.Expect(x.Owned()).To(HaveLen(64))
		b.end()
	})
}
