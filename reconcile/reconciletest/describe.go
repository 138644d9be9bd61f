package reconciletest

import (
	"fmt"
	"strings"

	"github.com/homeostat/homeostat/internal/apisim"
)

// describe returns the text of an action for the trace. Tokens hash this text,
// so changing it makes existing tokens invalid.
func describe(a apisim.Action) string {
	_, text, _ := strings.Cut(a.String(), " ")
	text = strings.TrimPrefix(text, fmt.Sprintf("%s#%d ", a.Call.Client, a.Call.Incarnation))
	switch a.Kind {
	case apisim.Deliver:
		// for example "watch 3 configmaps ADDED 104 d/a"
		if f := strings.Fields(text); len(f) >= 6 {
			return "deliver   " + f[3] + " " + f[2] + " " + f[5]
		}
		return "deliver   " + text
	case apisim.Commit:
		return "late      " + text
	case apisim.Release:
		return "call      " + text
	}
	return "actor     " + text
}
