package diff

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// encoded compares two objects by their JSON, for types that have no plan. The patch is a JSON merge patch.
func encoded(before, after any) (Patch, error) {
	a, err := treeOf(before)
	if err != nil {
		return Patch{}, fmt.Errorf("encoding the object before the edit: %w", err)
	}
	b, err := treeOf(after)
	if err != nil {
		return Patch{}, fmt.Errorf("encoding the object after the edit: %w", err)
	}
	return untyped(a, b)
}

// treeOf returns the JSON of o, which must be an object, with its numbers as they are written.
func treeOf(o any) (map[string]any, error) {
	data, err := json.Marshal(o)
	if err != nil {
		return nil, err
	}
	var tree map[string]any
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	err = d.Decode(&tree)
	return tree, err
}
