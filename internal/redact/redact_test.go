package redact_test

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/homeostat/homeostat/internal/redact"
)

const secret = "hunter2"

func invalid(name string, faults ...*field.Error) error {
	return apierrors.NewInvalid(schema.GroupKind{Kind: "Secret"}, name, faults)
}

func TestNoValueIsShown(t *testing.T) {
	g := NewWithT(t)
	key := field.NewPath("data", "key")
	one := invalid("one", field.Invalid(key, secret, secret+" is too short"))
	nested := invalid("two", field.Duplicate(key, map[string]string{"a": "b: " + secret}),
		field.NotSupported(key, secret, []string{"x"}), field.NotFound(key, secret), field.TypeInvalid(key, []byte(secret), ""))
	_, number := strconv.Atoi(secret)
	_, duration := time.ParseDuration("5" + secret)
	_, noDuration := time.ParseDuration(secret)
	_, moment := time.Parse(time.RFC3339, "2020-"+secret)
	_, address := url.Parse(fmt.Sprintf("postgres://shop:%s/3@db/shop", secret))
	_, escape := url.Parse(fmt.Sprintf("postgres://shop:%%%s@db", secret))
	_, ip := netip.ParseAddr(secret)
	for want, err := range map[string]error{
		`connecting: parse "…": invalid port "…" after host`:                             fmt.Errorf("connecting: %w", address),
		`parse "…": invalid URL escape "…"`:                                              escape,
		`ParseAddr("…"): unable to parse IP`:                                             ip,
		`Secret "one" is invalid: data.key`:                                              one,
		`patching: Secret "one" is invalid: data.key`:                                    fmt.Errorf("patching: %w", one),
		`Secret "two" is invalid: data.key, data.key, data.key, data.key`:                nested,
		`Secret "one" is invalid: data.key; Secret "two" is invalid: data.key, data.key`: fmt.Errorf("%w; %w", one, invalid("two", field.Invalid(key, secret, ""), field.Invalid(key, secret, ""))),
		`patching: Secret "one" is invalid: data.key: Invalid value (not shown)`:         fmt.Errorf("patching: %v", one),           //nolint:errorlint // as users do
		`panic: Secret "one" is invalid: data.key: Invalid value (not shown)`:            fmt.Errorf("panic: %v\n%s", one, "stack"), //nolint:errorlint // as a panic is caught
		`Secret "two" is invalid: [data.key: Duplicate value (not shown)`:                errors.New(nested.Error()),
		`Pod "a" is invalid: spec: Forbidden: pod updates may not change fields core.PodSpec (not shown)`: errors.New(
			`Pod "a" is invalid: spec: Forbidden: pod updates may not change fields core.PodSpec{ Env: {{Value: "` + secret + `"}}}`),
		`strconv.Atoi: parsing "…": invalid syntax`:                                 number,
		`time: unknown unit "…" in duration "…"`:                                    duration,
		`time: invalid duration "…"`:                                                noDuration,
		`parsing time "…" as "2006-01-02T15:04:05Z07:00": cannot parse "…" as "01"`: moment,
		`listing "d/a": the server is away`:                                         errors.New(`listing "d/a": the server is away` + "\n" + secret),
		strings.Repeat("x", 600) + "…" + strings.Repeat("y", 400): errors.New(
			strings.Repeat("x", 601) + strings.Repeat("y", 400)),
		strings.Repeat("é", 299) + "e…" + strings.Repeat("ß", 199) + "s": errors.New(
			strings.Repeat("é", 299) + "eé" + strings.Repeat("ß", 499) + "s"), // no half of a letter is left
		`configmaps "a" is forbidden: User "robot" cannot get resource "configmaps"`:    errors.New(`configmaps "a" is forbidden: User "robot" cannot get resource "configmaps"`),
		`Operation cannot be fulfilled on configmaps "a": the object has been modified`: errors.New(`Operation cannot be fulfilled on configmaps "a": the object has been modified`),
	} {
		g.Expect(redact.Error(err)).To(Equal(want))
		g.Expect(redact.Error(err)).NotTo(ContainSubstring(secret))
	}
}
