package reconciletest

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// cut is what is left out of a case, so that its counter-example is smaller: objects and steps by their number from 0,
// and all replicas but one.
type cut struct {
	objects, steps []int
	single         bool
}

func (c cut) none() bool { return len(c.objects) == 0 && len(c.steps) == 0 && !c.single }

// String is "o1.o2.w0.r": the objects and steps that are left out, and r for the replicas.
func (c cut) String() string {
	var parts []string
	for _, i := range c.objects {
		parts = append(parts, "o"+strconv.Itoa(i))
	}
	for _, i := range c.steps {
		parts = append(parts, "w"+strconv.Itoa(i))
	}
	if c.single {
		parts = append(parts, "r")
	}
	return strings.Join(parts, ".")
}

// words says what is left out; "" for nothing.
func (c cut) words(of *Case) string {
	var parts []string
	for _, i := range c.objects {
		if i < len(of.Objects) {
			parts = append(parts, title(of.Objects[i]))
		}
	}
	for _, i := range c.steps {
		if i < len(of.Workload) {
			parts = append(parts, strconv.Quote(of.Workload[i].Name))
		}
	}
	if c.single {
		parts = append(parts, "all replicas but one")
	}
	return strings.Join(parts, ", ")
}

func parseCut(text string) (cut, error) {
	var c cut
	for part := range strings.SplitSeq(text, ".") {
		switch part {
		case "":
			continue
		case "r":
			c.single = true
			continue
		}
		i, err := strconv.Atoi(part[1:])
		if err != nil || i < 0 {
			return cut{}, fmt.Errorf("%q is nothing that can be left out", part)
		}
		switch part[0] {
		case 'o':
			c.objects = append(c.objects, i)
		case 'w':
			c.steps = append(c.steps, i)
		default:
			return cut{}, fmt.Errorf("%q is nothing that can be left out", part)
		}
	}
	return c, nil
}

// apply returns the case without what is left out, and then without its goal.
func (c cut) apply(of *Case) *Case {
	if c.none() {
		return of
	}
	less := *of
	less.Objects, less.Workload, less.Goal = nil, nil, nil // the goal is of the whole workload
	for i, o := range of.Objects {
		if !slices.Contains(c.objects, i) {
			less.Objects = append(less.Objects, o)
		}
	}
	for i, s := range of.Workload {
		if !slices.Contains(c.steps, i) {
			less.Workload = append(less.Workload, s)
		}
	}
	if c.single {
		less.Replicas = 1
	}
	return &less
}

// cuts are the next ones: with one more thing left out, the last steps first.
func (c cut) next(of *Case) []cut {
	var all []cut
	for i := range slices.Backward(of.Workload) {
		if !slices.Contains(c.steps, i) {
			more := c
			more.steps = append(slices.Clone(c.steps), i)
			all = append(all, more)
		}
	}
	for i := range slices.Backward(of.Objects) {
		if !slices.Contains(c.objects, i) {
			more := c
			more.objects = append(slices.Clone(c.objects), i)
			all = append(all, more)
		}
	}
	if of.Replicas > 1 && !c.single {
		more := c
		more.single = true
		all = append(all, more)
	}
	return all
}
