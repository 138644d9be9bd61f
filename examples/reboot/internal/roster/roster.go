package roster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/homeostat/homeostat/examples/reboot/api"
	"github.com/homeostat/homeostat/examples/reboot/internal/rules"
)

// A Client lists groups, as [api.Client] does.
type Client interface {
	List(ctx context.Context, o metav1.ListOptions) (*api.RebootGroupList, error)
	// GetClient returns the client that sends the requests. While a group
	// cannot be decoded, Read lists the groups with this client, and decodes
	// each group on its own.
	GetClient() rest.Interface
}

// A Roster contains all groups, as of one moment.
type Roster struct {
	// Groups are all groups. A group that cannot be decoded as a whole has only
	// its metadata, its selector and its slots here. If the selector or the
	// slots cannot be decoded, either, that part is from the last state that
	// could be decoded. Without such a state the group has no slots, or a
	// selector of which [rules.Selector] returns an error.
	Groups []*api.RebootGroup
	// Unreadable contains the errors of the groups that cannot be decoded, by
	// name.
	Unreadable map[string]error
	// Unclear are the names of unreadable groups whose selectors or slots
	// cannot be decoded, either.
	Unclear []string
}

// Membership returns which nodes belong to which group.
func (r Roster) Membership() rules.Membership { return rules.NewMembership(r.Groups, r.Unclear...) }

// PlaceOf returns the relation of a node to the groups.
func (r Roster) PlaceOf(node *corev1.Node) rules.Place {
	return rules.PlaceOf(node, r.Groups, r.Unclear...)
}

// Read lists all groups. cached returns the last state of a group that could be
// decoded, or nil if there is no such state. Read does not use the state of a
// deleted group of the same name. The function cached may be nil.
func Read(ctx context.Context, groups Client, cached func(name string) *api.RebootGroup) (Roster, error) {
	list, err := groups.List(ctx, metav1.ListOptions{})
	var refused apierrors.APIStatus
	switch {
	case err != nil && !errors.As(err, &refused):
		return decodeEach(ctx, groups, cached, err)
	case err == nil && list.ResourceVersion == "":
		err = errors.New("the answer has no resourceVersion, so it is not from the API server")
	}
	if err != nil {
		return Roster{}, fmt.Errorf("listing RebootGroups: %w", err)
	}
	r := Roster{Groups: make([]*api.RebootGroup, 0, len(list.Items))}
	for i := range list.Items {
		r.Groups = append(r.Groups, &list.Items[i])
	}
	return r, nil
}

// decodeEach lists the groups again, and decodes each group on its own. Read
// calls it when the list as a whole could not be decoded, with the error as
// cause.
func decodeEach(
	ctx context.Context, groups Client, cached func(name string) *api.RebootGroup, cause error,
) (Roster, error) {
	body, err := groups.GetClient().Get().Resource(api.Resource).Do(ctx).Raw()
	if err != nil {
		return Roster{}, fmt.Errorf("listing RebootGroups: %w", err)
	}
	var list struct {
		metav1.TypeMeta `json:",inline"`
		metav1.ListMeta `json:"metadata"`

		Items []json.RawMessage `json:"items"`
	}
	if json.Unmarshal(body, &list) != nil || list.Kind != "RebootGroupList" || list.ResourceVersion == "" {
		return Roster{}, fmt.Errorf("listing RebootGroups: %w", cause)
	}
	r := Roster{Unreadable: map[string]error{}}
	for _, item := range list.Items {
		group := &api.RebootGroup{}
		err := json.Unmarshal(item, group)
		if err == nil {
			r.Groups = append(r.Groups, group)
			continue
		}
		var named metav1.PartialObjectMetadata
		if json.Unmarshal(item, &named) != nil || named.Name == "" {
			return Roster{}, fmt.Errorf("listing RebootGroups: %w", cause)
		}
		r.Unreadable[named.Name] = fmt.Errorf("reading RebootGroup %q: %w", named.Name, err)
		group, isClear := salvage(named.ObjectMeta, item, cached)
		r.Groups = append(r.Groups, group)
		if !isClear {
			r.Unclear = append(r.Unclear, named.Name)
		}
	}
	return r, nil
}

// unknown stands for a selector that cannot be decoded. It is malformed.
var unknown = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Operator: "Unknown"}}}

// salvage returns a group that cannot be decoded as a whole, with only its
// selector and its slots. If one of these cannot be decoded, either, isClear is
// false, and the group has that one from the last state that could be decoded,
// if cached returns a state with the same UID.
func salvage(named metav1.ObjectMeta, item json.RawMessage, cached func(name string) *api.RebootGroup,
) (group *api.RebootGroup, isClear bool) {
	var spec struct {
		Spec struct {
			NodeSelector *metav1.LabelSelector `json:"nodeSelector"`
		} `json:"spec"`
	}
	var status struct {
		Status struct {
			Slots []api.Slot `json:"slots"`
		} `json:"status"`
	}
	last := &api.RebootGroup{Spec: api.RebootGroupSpec{NodeSelector: unknown}}
	if cached != nil {
		if known := cached(named.Name); known != nil && known.UID == named.UID {
			last = known
		}
	}
	specErr, statusErr := json.Unmarshal(item, &spec), json.Unmarshal(item, &status)
	if specErr != nil {
		spec.Spec.NodeSelector = last.Spec.NodeSelector
	}
	if statusErr != nil {
		status.Status.Slots = last.Status.Slots
	}
	group = &api.RebootGroup{ObjectMeta: named}
	group.Spec.NodeSelector, group.Status.Slots = spec.Spec.NodeSelector, status.Status.Slots
	return group, specErr == nil && statusErr == nil
}
