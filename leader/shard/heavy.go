package shard

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// heavyAnnotation has the namespaces that may be too heavy for a replica, as a list of
// name:share.
const heavyAnnotation = "leader.homeostat.dev/heavy"

// heavyShare is of all objects: namespaces with less are light beside the share of each
// of 64 replicas, and are not recorded.
const heavyShare = 1.0 / 64

// namespaceShare is a namespace with its part of all objects.
type namespaceShare struct {
	name  string
	share float64
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
		return cmp.Or(cmp.Compare(b.share, a.share), cmp.Compare(a.name, b.name))
	})
}

// formatHeavy returns what is recorded.
func formatHeavy(all []namespaceShare) string {
	texts := make([]string, len(all))
	for n, of := range all {
		texts[n] = fmt.Sprintf("%s:%.4g", of.name, of.share)
	}
	return strings.Join(texts, " ")
}

// parseHeavy reads what formatHeavy has written. It is shown and nothing else, so what
// another client has edited is left out.
func parseHeavy(text string) (all []namespaceShare) {
	for field := range strings.FieldsSeq(text) {
		name, share, _ := strings.Cut(field, ":")
		if of, err := strconv.ParseFloat(share, 64); err == nil {
			all = append(all, namespaceShare{name, of})
		}
	}
	return all
}
