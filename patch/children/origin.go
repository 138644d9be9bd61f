package children

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// checkServers returns an error if the owners are known to be in another
// cluster than the children, and the children do not show in which one. The
// server of the owners can then say of the child of a third cluster's owner,
// truthfully, that it has no such owner. The garbage collector of the children's
// cluster would say so of all owners.
func (s *Set[T]) checkServers(owner metav1.Object) error {
	if s.options.Origin != "" || s.together.Load() {
		return nil
	}
	owners, children := s.server(owner), s.cache.Status().Server
	switch {
	case owners == "" || children == "":
		return nil
	case owners == children:
		s.together.Store(true)
		return nil
	case s.options.ByLabel:
		return fmt.Errorf("the owners are on the server %s, and their children on %s, where another cluster may have "+
			"children, too: set children.Options.Origin to a name of the owners' cluster, or use one address if it is one "+
			"cluster", owners, children)
	default:
		return fmt.Errorf("the owners are on the server %s, and their children on %s, whose garbage collector would "+
			"delete them: set children.Options.ByLabel and Origin, or use one address if it is one cluster", owners, children)
	}
}
