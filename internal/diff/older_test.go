package diff_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand"
	"reflect"
	"slices"
	"strings"
	"testing"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"

	"github.com/homeostat/homeostat/internal/diff"
)

// An older pair is a random type as a CustomResourceDefinition has it, and the
// type of a program that is older: some fields are missing in it, at every
// depth.
type older struct {
	r          *rand.Rand
	all, known reflect.Type
	alone      bool // whether there is only one edit
}

func newOlder(r *rand.Rand) older {
	o := older{r: r}
	o.all, o.known = o.structs(3)
	spec := func(t reflect.Type) reflect.Type {
		return reflect.StructOf([]reflect.StructField{{Name: "Spec", Type: t, Tag: `json:"spec"`}})
	}
	o.all, o.known = spec(o.all), spec(o.known)
	return o
}

func tag(r *rand.Rand, name string) reflect.StructTag {
	return reflect.StructTag(fmt.Sprintf(`json:"%s%s"`, name, [...]string{"", ",omitempty", ",omitzero"}[r.Intn(3)]))
}

// structs returns a type, and the same one with fewer fields.
func (o older) structs(depth int) (all, known reflect.Type) {
	var fields, kept []reflect.StructField
	for i := range 2 + o.r.Intn(4) {
		name := string(rune('A' + i))
		t, less := o.types(depth)
		f := reflect.StructField{Name: name, Type: t, Tag: tag(o.r, strings.ToLower(name))}
		if i == 0 && o.r.Intn(2) == 0 && t.Kind() == reflect.String {
			f.Name, f.Tag = "Name", tag(o.r, "name")
		}
		fields = append(fields, f)
		if f.Type = less; o.r.Intn(3) > 0 {
			kept = append(kept, f)
		}
	}
	return reflect.StructOf(fields), reflect.StructOf(kept)
}

func (o older) types(depth int) (all, known reflect.Type) {
	flat := []reflect.Type{reflect.TypeFor[string](), reflect.TypeFor[int64](), reflect.TypeFor[bool]()}
	n := o.r.Intn(9)
	if n < 3 || depth == 0 {
		t := flat[o.r.Intn(len(flat))]
		return t, t
	}
	if n == 3 {
		t := []reflect.Type{reflect.TypeFor[[]string](), reflect.TypeFor[map[string]string]()}[o.r.Intn(2)]
		return t, t
	}
	all, known = o.structs(depth - 1)
	switch n {
	case 4:
		return reflect.PointerTo(all), reflect.PointerTo(known)
	case 5:
		return reflect.MapOf(reflect.TypeFor[string](), all), reflect.MapOf(reflect.TypeFor[string](), known)
	case 6:
		return all, known
	default:
		return reflect.SliceOf(all), reflect.SliceOf(known)
	}
}

// edit makes the same change to both values: the whole object, and the object
// as the older program knows it.
func (o older) edit(all, known reflect.Value) {
	switch known.Kind() {
	case reflect.Struct:
		if n := known.NumField(); n > 0 {
			i := o.r.Intn(n)
			o.edit(all.FieldByName(known.Type().Field(i).Name), known.Field(i))
		}
	case reflect.Pointer:
		switch {
		case known.IsNil():
			o.replace(all, known)
		case o.r.Intn(8) == 0 && o.alone: // another edit could make it again, which no comparison sees
			all.SetZero()
			known.SetZero()
		default:
			o.edit(all.Elem(), known.Elem())
		}
	case reflect.Slice:
		if known.Type().Elem().Kind() != reflect.Struct {
			o.replace(all, known)
			return
		}
		o.list(all, known)
	case reflect.Map:
		o.entry(all, known)
	default:
		o.replace(all, known)
	}
}

// replace sets known to a new value, and all to the same value.
func (o older) replace(all, known reflect.Value) {
	v := reflect.New(known.Type())
	newMutator(rand.NewSource(o.r.Int63()), 0).fill.Fill(v.Interface())
	known.Set(reflect.ValueOf(roundTrip(v.Interface())).Elem())
	all.Set(reflect.ValueOf(decode([]byte(text(known.Interface())), reflect.New(all.Type()).Interface())).Elem())
}

func (o older) list(all, known reflect.Value) {
	n := known.Len()
	at := 0
	if n > 0 {
		at = o.r.Intn(n)
	}
	both := func(change func(v reflect.Value)) {
		change(all)
		change(known)
	}
	what := o.r.Intn(6)
	if !o.alone && what > 1 { // the element that was removed may look like one that was edited
		what = 4
	}
	switch {
	case what < 2 && n > 0:
		o.edit(all.Index(at), known.Index(at))
	case what == 2 && n > 0:
		both(func(v reflect.Value) {
			v.Set(reflect.AppendSlice(v.Slice3(0, at, at), v.Slice(at+1, n)))
		})
	case what == 3 && n > 1:
		other := o.r.Intn(n)
		if text(known.Index(at).Interface()) == text(known.Index(other).Interface()) {
			return // the program does not see any difference
		}
		both(func(v reflect.Value) { reflect.Swapper(v.Interface())(at, other) })
	default:
		a, k := reflect.New(all.Type().Elem()).Elem(), reflect.New(known.Type().Elem()).Elem()
		o.replace(a, k)
		if what == 4 {
			at = n
		}
		insert := func(v, e reflect.Value) {
			out := reflect.MakeSlice(v.Type(), 0, n+1)
			v.Set(reflect.AppendSlice(reflect.Append(reflect.AppendSlice(out, v.Slice(0, at)), e), v.Slice(at, n)))
		}
		insert(all, a)
		insert(known, k)
	}
}

func (o older) entry(all, known reflect.Value) {
	keys := known.MapKeys()
	if known.IsNil() {
		o.replace(all, known)
		return
	}
	if len(keys) == 0 {
		return
	}
	slices.SortFunc(keys, func(a, b reflect.Value) int { return strings.Compare(a.String(), b.String()) })
	k := keys[o.r.Intn(len(keys))]
	if o.r.Intn(3) == 0 {
		all.SetMapIndex(k, reflect.Value{})
		known.SetMapIndex(k, reflect.Value{})
		return
	}
	copied := func(m reflect.Value) reflect.Value {
		v := reflect.New(m.Type().Elem()).Elem()
		v.Set(m.MapIndex(k))
		return v
	}
	a, b := copied(all), copied(known)
	o.edit(a, b)
	all.SetMapIndex(k, a)
	known.SetMapIndex(k, b)
}

// withoutZeros removes, at random, the zero values that may be missing in an
// object that was not made by a Go program. With a nil source it removes all of
// them.
func withoutZeros(r *rand.Rand, v any) any {
	missing := func(v any) bool {
		switch v := v.(type) {
		case map[string]any:
			return len(v) == 0 && (r == nil || r.Intn(2) == 0)
		case []any:
			return len(v) == 0 && (r == nil || r.Intn(2) == 0)
		default:
			return v == nil || (v == "" || v == false || v == 0.0) && (r == nil || r.Intn(2) == 0)
		}
	}
	switch v := v.(type) {
	case map[string]any:
		names := make([]string, 0, len(v))
		for name := range v {
			names = append(names, name)
		}
		slices.Sort(names)
		for _, name := range names {
			if v[name] = withoutZeros(r, v[name]); missing(v[name]) {
				delete(v, name)
			}
		}
	case []any:
		for i := range v {
			v[i] = withoutZeros(r, v[i])
		}
	}
	return v
}

func treeOf(data []byte) (v any) {
	if err := json.Unmarshal(data, &v); err != nil {
		panic(err)
	}
	return v
}

// ambiguous reports whether the edit cannot be told from a different edit by
// the fields that the program knows. For example, a different element of a list
// has become equal to the edited one, or more similar to it: the program may
// have edited both, or may have inserted one. An element with a new name and
// all new values is not the same element either.
func ambiguous(before, after any) bool {
	switch before := before.(type) {
	case map[string]any:
		after, _ := after.(map[string]any)
		for name := range before {
			if ambiguous(before[name], after[name]) {
				return true
			}
		}
	case []any:
		after, _ := after.([]any)
		for i, was := range before[:min(len(before), len(after))] {
			is := after[i]
			if ambiguous(was, is) {
				return true
			}
			others := slices.Delete(slices.Clone(after), i, i+1)
			if nameOf(was) != nameOf(is) && inCommon(was, is) == 0 && inCommon(was, was) > 1 {
				return true
			}
			if !reflect.DeepEqual(was, is) && slices.ContainsFunc(others, func(e any) bool {
				return reflect.DeepEqual(was, e) || inCommon(was, e) >= max(1, inCommon(was, is)) ||
					nameOf(was) != nil && nameOf(was) == nameOf(e) && nameOf(was) != nameOf(is)
			}) {
				return true
			}
		}
	}
	return false
}

func nameOf(v any) any {
	object, _ := v.(map[string]any)
	return object["name"]
}

// inCommon counts the values that two trees have in common.
func inCommon(a, b any) (n int) {
	switch a := a.(type) {
	case map[string]any:
		b, _ := b.(map[string]any)
		for name := range a {
			n += inCommon(a[name], b[name])
		}
	case []any:
		b, _ := b.([]any)
		for i := range min(len(a), len(b)) {
			n += inCommon(a[i], b[i])
		}
	case nil:
	default:
		if a == b && !reflect.ValueOf(a).IsZero() {
			n = 1
		}
	}
	return n
}

// A patchServer stores a document, applies the first patch that it does not
// refuse, and returns the document afterwards.
type patchServer func(document []byte, p diff.Patch) ([]byte, error)

func local(document []byte, p diff.Patch) ([]byte, error) {
	got, err := onServer(document, p.Data, p.Style, nil)
	for i := 0; err != nil && i < len(p.Fallbacks); i++ {
		got, err = onServer(document, p.Fallbacks[i], p.Style, nil)
	}
	return got, err
}

// outcome counts the results of edits by an older program.
type outcome struct{ sent, operations, refused int }

// olderEdit edits an object that has more fields than the program knows, and
// returns an error if the server's object afterwards is not the one that a
// program with all fields would have made.
func olderEdit(r *rand.Rand, edits int, server patchServer, count *outcome) error {
	o := newOlder(r)
	o.alone = edits == 1
	filled := reflect.New(o.all)
	newMutator(rand.NewSource(r.Int63()), 0).fill.Fill(filled.Interface())
	document, err := json.Marshal(withoutZeros(r, treeOf([]byte(text(filled.Interface())))))
	if err != nil {
		return err
	}
	all := reflect.ValueOf(decode(document, filled.Interface()))
	before := decode(document, reflect.New(o.known).Interface())
	after := reflect.ValueOf(decode(document, before))
	for range edits {
		o.edit(all.Elem(), after.Elem())
	}
	if edits > 1 && ambiguous(treeOf([]byte(text(before))), treeOf([]byte(text(after.Interface())))) {
		return nil
	}
	p, err := diff.Make(before, after.Interface(), diff.JSON)
	if err != nil || p.Data == nil {
		return err
	}
	count.sent++
	if p.Style == diff.Operations {
		count.operations++
	}
	got, err := server(document, p)
	if errors.Is(err, jsonpatch.ErrTestFailed) || errors.Is(err, jsonpatch.ErrMissing) {
		count.refused++
		return nil
	}
	if err != nil {
		return fmt.Errorf("the patch %s of %s is refused: %w", p.Data, document, err)
	}
	is, want := text(withoutZeros(nil, treeOf(got))), text(withoutZeros(nil, treeOf([]byte(text(all.Interface())))))
	if is != want {
		return fmt.Errorf("of\n%s\nthe program knows\n%s\nand wants\n%s\nthe patch\n%s\ngives\n%s\nnot\n%s",
			document, text(before), text(after.Interface()), p.Data, is, want)
	}
	return nil
}

func TestWhatAnOlderTypeDoesNotKnowSurvives(t *testing.T) {
	for edits := 1; edits <= 3; edits++ {
		var count outcome
		for seed := range int64(400) {
			if err := olderEdit(rand.New(rand.NewSource(seed)), edits, local, &count); err != nil {
				t.Fatalf("%d edits, seed %d: %v", edits, seed, err)
			}
		}
		t.Logf("%d edits: %+v", edits, count)
		if count.operations < 100 || count.refused > count.operations/8 {
			t.Errorf("%d edits: %+v", edits, count)
		}
	}
}

// One edit gives an element the values of a second element, and gives the
// second element the values of the first: the program inserts an element.
func TestAnEditThatLooksLikeAnotherOneIsNotJudged(t *testing.T) {
	var count outcome
	for _, seed := range []int64{1975224803313800660, 8664389287869291895} {
		if err := olderEdit(rand.New(rand.NewSource(seed)), 2, local, &count); err != nil || count.sent > 0 {
			t.Errorf("seed %d: %+v: %v", seed, count, err)
		}
	}
}

// An element is renamed, and one of its lists gets another element: it may be a
// different one.
func TestARenamedElementLosesNothing(t *testing.T) {
	var count outcome
	if err := olderEdit(rand.New(rand.NewSource(1167226826703843410)), 2, local, &count); err != nil || count.refused != 1 {
		t.Errorf("%+v: %v", count, err)
	}
}

func FuzzOlderTypes(f *testing.F) {
	for seed := range uint64(16) {
		f.Add([]byte{byte(seed), 1, 2, 3, 4, 5, 6, 7}, byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte, edits byte) {
		if err := olderEdit(rand.New(&entropy{data: data}), 1+int(edits)%3, local, &outcome{}); err != nil {
			t.Fatal(err)
		}
	})
}
