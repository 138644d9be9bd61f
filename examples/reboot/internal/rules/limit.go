package rules

import (
	"fmt"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/homeostat/homeostat/examples/reboot/api"
)

// Limit returns how many of n nodes may be unavailable at the same time. It
// returns an error if the group's maxUnavailable is malformed, or allows no
// node.
func Limit(g *api.RebootGroup, n int) (int, error) {
	v := g.Spec.MaxUnavailable
	if v.Type == intstr.Int {
		if v.IntVal < 1 {
			return 0, limitError(g, strconv.Itoa(int(v.IntVal)))
		}
		return int(v.IntVal), nil
	}
	digits, ok := strings.CutSuffix(v.StrVal, "%")
	percent, err := strconv.Atoi(digits)
	if !ok || err != nil || percent < 1 || percent > 100 {
		return 0, limitError(g, strconv.Quote(v.StrVal))
	}
	return max(1, n*percent/100), nil
}

func limitError(g *api.RebootGroup, value string) error {
	return fmt.Errorf("RebootGroup %q: spec.maxUnavailable is %s: set a number of at least 1, or a percentage "+
		`from "1%%" to "100%%"; to stop reboots, set spec.paused to true`, g.Name, value)
}
