package patch

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"

	"k8s.io/apimachinery/pkg/types"

	"github.com/homeostat/homeostat/informer"
	"github.com/homeostat/homeostat/internal/diff"
)

// configMeta is what an applied configuration says about its object.
type configMeta struct {
	Namespace, Name, ResourceVersion string
	UID                              types.UID

	data []byte
}

// encode is the JSON of config and what is in its metadata.
func encode(config any) ([]byte, configMeta, error) {
	var named struct{ Metadata configMeta }
	data, err := json.Marshal(config)
	if err == nil {
		err = json.Unmarshal(data, &named)
	}
	meta := named.Metadata
	meta.data = data
	switch {
	case err != nil:
		return nil, meta, fmt.Errorf("encoding the configuration: %w", err)
	case meta.Name == "":
		return nil, meta, errors.New("the configuration is nil or has no name")
	case len(data) > maxBytes:
		return nil, meta, fmt.Errorf("the configuration has %d bytes, a server reads at most %d", len(data), maxBytes)
	}
	return data, meta, nil
}

// checkAgainst refuses a configuration of another object than cached.
func (m configMeta) checkAgainst(cached informer.Object) error {
	if isNil(cached) {
		return nil
	}
	key := types.NamespacedName{Namespace: m.Namespace, Name: m.Name}
	if key != keyOf(cached) || m.UID != "" && m.UID != cached.GetUID() {
		return fmt.Errorf("the configuration is of %q with UID %q, the cached object is %q with UID %q",
			key, m.UID, keyOf(cached), cached.GetUID())
	}
	return nil
}

// withCondition returns config, or a copy of it that has the UID of cached, and
// its resourceVersion where servers ignore the UID.
func withCondition[C any](config C, meta configMeta, cached informer.Object, subresource string) (C, error) {
	var members []byte
	if meta.UID == "" && cached.GetUID() != "" {
		members = appendMember(members, "uid", string(cached.GetUID()))
	}
	version := cached.GetResourceVersion()
	if version != "" && meta.ResourceVersion == "" && ignoresUID(cached, subresource) {
		members = appendMember(members, "resourceVersion", version)
	}
	if members == nil {
		return config, nil
	}
	data := diff.WithMetadata(meta.data, members)
	var copied C
	into := any(&copied)
	if t := reflect.TypeOf(config); t.Kind() == reflect.Pointer {
		fresh := reflect.New(t.Elem())
		copied, into = fresh.Interface().(C), fresh.Interface()
	}
	if err := json.Unmarshal(data, into); err != nil {
		return config, fmt.Errorf("putting the UID into the configuration: %w", err)
	}
	if again, err := json.Marshal(copied); err != nil || !sameJSON(again, data) {
		return config, errors.Join(err,
			errors.New("the configuration loses something on its way through JSON: put the UID into it"))
	}
	return copied, nil
}

func sameJSON(a, b []byte) bool {
	var x, y any
	return json.Unmarshal(a, &x) == nil && json.Unmarshal(b, &y) == nil && reflect.DeepEqual(x, y)
}
