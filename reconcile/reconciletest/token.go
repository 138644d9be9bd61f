package reconciletest

import (
	"fmt"
	"strings"
)

const tokenVersion = "rt1"

// token is what Replay takes: a hash of the trace that it gave, the plan, and what of the case was left out.
func token(p plan, hash string, less cut) string {
	text := tokenVersion + ":" + hash + ":" + p.String()
	if !less.none() {
		text += ":" + less.String()
	}
	return text
}

func parseToken(token string) (p plan, hash string, less cut, err error) {
	parts := strings.Split(token, ":")
	if len(parts) == 3 {
		parts = append(parts, "")
	}
	if len(parts) != 4 || parts[0] != tokenVersion {
		return nil, "", cut{}, fmt.Errorf("reading token %q: want %s:HASH:PLAN as a failed exploration prints it", token,
			tokenVersion)
	}
	if p, err = parsePlan(parts[2]); err == nil {
		less, err = parseCut(parts[3])
	}
	if err != nil {
		return nil, "", cut{}, fmt.Errorf("reading token %q: %w", token, err)
	}
	return p, parts[1], less, nil
}
