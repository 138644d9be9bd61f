package shard

import (
	"cmp"
	"encoding/json"
	"slices"
)

// heavyAnnotation has the namespaces that may be too heavy for a replica.
const heavyAnnotation = "leader.homeostat.dev/heavy"

// heavyShare is of all objects: namespaces with less are light beside the share of each
// of 64 replicas, and are not recorded.
const heavyShare = 1.0 / 64

// namespaceShare is a namespace with its part of all objects.
type namespaceShare struct {
	Name  string
	Share float64
}

// heaviestOf returns the namespaces with more than heavyShare, the heaviest first.
func heaviestOf(namespaces map[string]int) []namespaceShare {
	total := 0
	for _, objects := range namespaces {
		total += objects
	}
	var all []namespaceShare
	for name, objects := range namespaces {
		if share := float64(objects) / float64(max(1, total)); share > heavyShare {
			all = append(all, namespaceShare{name, share})
		}
	}
	sortHeavy(all)
	return all
}

// sortHeavy sorts namespaces, the heaviest first.
func sortHeavy(all []namespaceShare) {
	slices.SortFunc(all, func(a, b namespaceShare) int {
		return cmp.Or(cmp.Compare(b.Share, a.Share), cmp.Compare(a.Name, b.Name))
	})
}

// formatHeavy returns the form that is recorded.
func formatHeavy(all []namespaceShare) string {
	text, _ := json.Marshal(all) // strings and numbers have no errors
	return string(text)
}

// parseHeavy parses the output of formatHeavy, which is only shown. It returns nothing if another client has edited it.
func parseHeavy(text string) (all []namespaceShare) {
	if json.Unmarshal([]byte(text), &all) != nil {
		return nil
	}
	return all
}
