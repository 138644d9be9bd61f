package diff

import (
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
func treeOf(o any) (tree map[string]any, err error) {
	data, err := json.Marshal(o)
	if err == nil {
		err = decode(data, &tree)
	}
	return tree, err
}
