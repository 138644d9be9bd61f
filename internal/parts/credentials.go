package parts

import (
	"fmt"
	"time"
)

// unauthorizedFor is how long the API server may answer all requests of an
// informer with 401 before [CredentialsEnded] returns an error. Credentials
// that were replaced, in a file or by a plugin, are used within that time.
const unauthorizedFor = 5 * time.Minute

// CredentialsEnded returns an error if the API server has answered an informer
// with 401 for at least five minutes. New credentials would have been used by
// then, unless they require a restart. name is the name of the informer, and
// since its Status.UnauthorizedSince. If since is zero, there is no error.
func CredentialsEnded(name string, since time.Time) error {
	if since.IsZero() || time.Since(since) < unauthorizedFor {
		return nil
	}
	return fmt.Errorf("the API server has answered 401 to the informer of %s for %v: its credentials are not valid",
		name, time.Since(since).Round(time.Second))
}
