package reconciletest

import (
	"fmt"
	"strings"

	"github.com/homeostat/homeostat/internal/apisim"
)

// describe returns the text of an action for the trace. Tokens hash this text,
// so changing it makes existing tokens invalid.
func describe(a apisim.Action) string {
	_, after, _ := strings.Cut(a.String(), " ")
	after = strings.TrimPrefix(after, fmt.Sprintf("%s#%d ", a.Call.Client, a.Call.Incarnation))
	switch a.Kind {
	case apisim.Deliver:
		if f := strings.Fields(after); len(f) >= 6 { // watch 3 configmaps ADDED 104 d/a
			return "deliver   " + f[3] + " " + f[2] + " " + f[5]
		}
		return "deliver   " + after
	case apisim.Commit:
		return "late      " + after
	case apisim.Release:
		return "call      " + after
	}
	return "actor     " + after
}
