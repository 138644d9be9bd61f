package profiles_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/homeostat/homeostat/status/profiles"
)

// A program sets the handler as status.Options.Profiles, behind
// Options.Authorize.
func ExampleHandler() {
	server := httptest.NewServer(profiles.Handler())
	defer server.Close()
	for _, path := range []string{"heap", "trace"} {
		answer, err := http.Get(server.URL + "/debug/pprof/" + path)
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(path, answer.StatusCode)
		_ = answer.Body.Close()
	}
	// Output:
	// heap 200
	// trace 404
}
