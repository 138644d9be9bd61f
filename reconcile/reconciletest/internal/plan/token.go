package plan

import (
	"fmt"
	"strconv"
	"strings"
)

const tokenVersion = "rt1"

// Token returns the token of a run for Replay. It consists of the hash of the
// trace, the plan, and the parts that were left out of the case.
func Token(p Plan, hash string, cut Cut) string {
	text := tokenVersion + ":" + hash + ":" + p.String()
	if !cut.IsEmpty() {
		text += ":" + cut.String()
	}
	return text
}

// ParseToken parses the output of [Token].
func ParseToken(token string) (p Plan, hash string, cut Cut, err error) {
	parts := strings.Split(token, ":")
	if len(parts) == 3 {
		parts = append(parts, "")
	}
	if len(parts) != 4 || parts[0] != tokenVersion {
		return nil, "", Cut{}, fmt.Errorf("reading token %q: want %s:HASH:PLAN as a failed exploration prints it", token,
			tokenVersion)
	}
	if p, err = Parse(parts[2]); err == nil {
		cut, err = parseCut(parts[3])
	}
	if err != nil {
		return nil, "", Cut{}, fmt.Errorf("reading token %q: %w", token, err)
	}
	return p, parts[1], cut, nil
}

// Cut names the parts that are left out of a case to make its counter-example
// smaller. Objects and Steps are indices from 0, and Single leaves out all
// replicas except one.
type Cut struct {
	Objects, Steps []int
	Single         bool
}

// IsEmpty reports whether the cut leaves out no part.
func (c Cut) IsEmpty() bool { return len(c.Objects) == 0 && len(c.Steps) == 0 && !c.Single }

// String returns a text such as "o1.o2.w0.r". It names the objects (o) and
// steps (w) that are left out; r means all replicas but one.
func (c Cut) String() string {
	var parts []string
	for _, i := range c.Objects {
		parts = append(parts, "o"+strconv.Itoa(i))
	}
	for _, i := range c.Steps {
		parts = append(parts, "w"+strconv.Itoa(i))
	}
	if c.Single {
		parts = append(parts, "r")
	}
	return strings.Join(parts, ".")
}

func parseCut(text string) (Cut, error) {
	var c Cut
	for part := range strings.SplitSeq(text, ".") {
		switch part {
		case "":
			continue
		case "r":
			c.Single = true
			continue
		}
		i, err := strconv.Atoi(part[1:])
		if err != nil || i < 0 || part[0] != 'o' && part[0] != 'w' {
			return Cut{}, fmt.Errorf("%q is neither an object nor a step", part)
		}
		if part[0] == 'o' {
			c.Objects = append(c.Objects, i)
		} else {
			c.Steps = append(c.Steps, i)
		}
	}
	return c, nil
}
