package names

import (
	"context"
	"errors"
	"fmt"
)

// Union lists the names of all listers, one after the other. If one of them
// returns an error there are no names at all, and the error says which it was.
func Union(listers ...Lister) UIDLister {
	return UIDFunc(func(ctx context.Context) ([]Name, error) {
		var union []Name
		var faults []error
		for i, l := range listers {
			all, err := list(ctx, l)
			if err != nil {
				faults = append(faults, fmt.Errorf("lister %d of %d: %w", i+1, len(listers), err))
			}
			union = append(union, all...)
		}
		if err := errors.Join(faults...); err != nil {
			return nil, err
		}
		return union, nil
	})
}
