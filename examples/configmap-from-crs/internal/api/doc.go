// Package api is the API type of the example: a Setting is one line of a
// ConfigMap, with the typed client for it. Nothing here is generated.
package api
