// Package api has the API type of the example and a typed client for it. A
// Setting is one line of a ConfigMap. The code is written by hand, without a
// generator.
package api
