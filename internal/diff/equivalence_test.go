package diff_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand"
	"reflect"
	"sort"
	"strings"
	"testing"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/homeostat/homeostat/internal/diff"
)

// builtIn returns the types of all stored kinds in client-go's scheme, in every
// version.
func builtIn() []reflect.Type {
	var out []reflect.Type
	for _, t := range scheme.Scheme.AllKnownTypes() {
		_, stored := reflect.TypeAssert[metav1.Object](reflect.New(t))
		if stored && !strings.HasPrefix(t.PkgPath(), "k8s.io/apimachinery/") {
			out = append(out, t)
		}
	}
	sort.Slice(out, func(i, j int) bool { return out[i].String() < out[j].String() })
	return out
}

// pair returns an object as a server would send it, and an edited copy of the
// object.
func pair(t reflect.Type, source rand.Source, chance float64) (before, after any) {
	m := newMutator(source, chance)
	filled := reflect.New(t)
	m.fill.Fill(filled.Interface())
	before = roundTrip(filled.Interface())
	after = roundTrip(before)
	m.mutate(reflect.ValueOf(after).Elem())
	return before, after
}

// roundTrip encodes an object as JSON, and returns the decoded result.
func roundTrip(o any) any {
	data, err := json.Marshal(o)
	if err != nil {
		panic(err)
	}
	return decode(data, o)
}

func decode(data []byte, like any) any {
	out := reflect.New(reflect.TypeOf(like).Elem()).Interface()
	if err := json.Unmarshal(data, out); err != nil {
		panic(err)
	}
	return out
}

// apply applies a patch as a server does.
func apply(before any, data []byte, s diff.Style) (any, error) {
	original, err := json.Marshal(before)
	if err != nil {
		return nil, err
	}
	if data == nil {
		return decode(original, before), nil
	}
	if data, err = onServer(original, data, s, before); err != nil {
		return nil, err
	}
	return decode(data, before), nil
}

// onServer applies a patch to a document as a server does.
func onServer(document, data []byte, s diff.Style, like any) ([]byte, error) {
	switch s {
	case diff.Strategic:
		return strategicpatch.StrategicMergePatch(document, data, like)
	case diff.Operations:
		p, err := jsonpatch.DecodePatch(data)
		if err != nil {
			return nil, err
		}
		return p.Apply(document)
	default:
		return jsonpatch.MergePatch(document, data)
	}
}

// apimachinery makes its own patch of the two objects, by way of their JSON.
func apimachinery(before, after any, s diff.Style) ([]byte, error) {
	var patch []byte
	var err error
	if s == diff.Strategic {
		patch, err = strategicpatch.CreateTwoWayMergePatch([]byte(text(before)), []byte(text(after)), after)
	} else {
		patch, err = jsonpatch.CreateMergePatch([]byte(text(before)), []byte(text(after)))
	}
	if err != nil || string(patch) == "{}" {
		return nil, err
	}
	return patch, nil
}

// A verdict compares our patch with the one of apimachinery.
type verdict struct {
	ours, theirs  int  // bytes
	theirsIsWrong bool // it fails, or its result is not what was asked for
	gaveUp        bool // we send another patch
	refused       bool // by a test of ours, since the Go type cannot tell what the server has
}

// judge returns an error unless our patch gives exactly the edited object.
// apimachinery's patch must give the same object, unless that patch is wrong.
func judge(before, after any, s diff.Style) (verdict, error) {
	var v verdict
	keep := roundTrip(before)
	p, err := diff.Make(before, after, s)
	if err != nil {
		return v, fmt.Errorf("our patch: %w", err)
	}
	if !reflect.DeepEqual(keep, before) {
		return v, fmt.Errorf("the comparison wrote to the object")
	}
	want := roundTrip(after)
	if err := gives(before, want, p); errors.Is(err, jsonpatch.ErrTestFailed) && s == diff.JSON {
		return verdict{refused: true, gaveUp: true, ours: len(p.Data)}, nil
	} else if err != nil {
		return v, err
	}
	theirs, err := apimachinery(before, after, s)
	if err == nil {
		var other any
		other, err = apply(before, theirs, s)
		v.theirsIsWrong = err != nil || !equality.Semantic.DeepEqual(other, want)
	} else {
		v.theirsIsWrong = true
	}
	v.ours, v.theirs, v.gaveUp = len(p.Data), len(theirs), p.Style != s
	return v, nil
}

// gives returns an error that says why applying p to before does not give want.
func gives(before, want any, p diff.Patch) error {
	got, err := apply(before, p.Data, p.Style)
	for _, other := range p.Fallbacks {
		if err == nil {
			break
		}
		again, refused := apply(before, other, p.Style)
		got, err = again, errors.Join(err, refused)
		if refused == nil {
			err = nil
		}
	}
	if err != nil {
		return fmt.Errorf("applying our patch %s: %w", p.Data, err)
	}
	if !equality.Semantic.DeepEqual(got, want) {
		missing, _ := jsonpatch.CreateMergePatch([]byte(text(got)), []byte(text(want)))
		return fmt.Errorf("our patch %s\nof %s\ndoes not give %s", p.Data, text(before), missing)
	}
	return nil
}

func text(o any) string {
	data, err := json.Marshal(o)
	if err != nil {
		return err.Error()
	}
	return string(data)
}

const pairsPerKind = 2

func TestEveryBuiltInKindAgreesWithApimachinery(t *testing.T) {
	kinds := builtIn()
	if len(kinds) < 100 {
		t.Fatalf("only %d kinds: the scheme is not what it was", len(kinds))
	}
	for _, style := range []diff.Style{diff.Strategic, diff.JSON} {
		var wrong, gaveUp, changed, refused, ours, theirs int
		for _, kind := range kinds {
			for seed := range int64(pairsPerKind) {
				before, after := pair(kind, rand.NewSource(seed), []float64{.03, .3}[seed%2])
				v, err := judge(before, after, style)
				if err != nil {
					t.Fatalf("%v, seed %d, style %d: %v", kind, seed, style, err)
				}
				wrong += number(v.theirsIsWrong)
				gaveUp += number(v.gaveUp)
				changed += number(v.ours > 0)
				refused += number(v.refused)
				if !v.theirsIsWrong && !v.gaveUp { // operations are longer: they identify what they change
					ours, theirs = ours+v.ours, theirs+v.theirs
				}
			}
		}
		t.Logf("style %d: %d kinds, %d pairs, %d changed; another patch instead %d times, "+
			"which is refused %d times; apimachinery wrong %d times; where it is right its patches have %d bytes, ours %d",
			style, len(kinds), len(kinds)*pairsPerKind, changed, gaveUp, refused, wrong, theirs, ours)
		if refused > len(kinds)*pairsPerKind/20 {
			t.Errorf("%d patches are refused", refused)
		}
		if changed < len(kinds) {
			t.Errorf("only %d pairs differ: the mutation does not work", changed)
		}
	}
}

func number(b bool) int {
	if b {
		return 1
	}
	return 0
}
