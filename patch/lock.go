package patch

import (
	"encoding/json"
	"errors"

	"github.com/homeostat/homeostat/internal/diff"
)

// lock puts the preconditions of l into the metadata of a merge patch.
func lock(data []byte, cached Object, l Lock) ([]byte, error) {
	var faults []error
	var members []byte
	add := func(wanted bool, name, value string) {
		switch {
		case !wanted:
		case value == "":
			faults = append(faults, errors.New("the object has no metadata."+name+" to lock on: read it from the server first"))
		default:
			if len(members) > 0 {
				members = append(members, ',')
			}
			quoted, err := json.Marshal(value)
			if err != nil {
				faults = append(faults, err)
			}
			members = append(append(members, `"`+name+`":`...), quoted...)
		}
	}
	add(l.ResourceVersion, "resourceVersion", cached.GetResourceVersion())
	add(l.UID, "uid", string(cached.GetUID()))
	if len(members) == 0 || len(faults) > 0 {
		return data, errors.Join(faults...)
	}
	return diff.WithMetadata(data, members), nil
}
