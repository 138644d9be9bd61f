package children

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// checkServers returns an error if the owners and the children are known to be
// on servers with different addresses, and the children do not show in which
// cluster their owners are (Options.Origin). With Options.ByLabel, a third
// cluster may have children on the same server, too. The server of this owner
// would truthfully say that their owners do not exist, and they would be
// deleted as orphans. Without Options.ByLabel, the garbage collector of the
// children's cluster would delete all children, because their owners do not
// exist there.
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
