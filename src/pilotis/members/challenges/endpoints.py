"""The route of challenges."""

from __future__ import annotations

from pilotis.http.api.endpoint import Endpoints, post
from pilotis.http.api.principals import Access
from pilotis.http.api.request import Call
from pilotis.members.challenges.service import Challenges
from pilotis.members.challenges.types import Puzzle


class ChallengeEndpoints(Endpoints, tag="App member authentication"):
    """Puzzles for clients."""

    def __init__(self, challenges: Challenges) -> None:
        self._challenges = challenges

    @post("/v1/public/challenges", access=Access.PUBLIC_KEY, needs_room=False, only_reads=True)
    async def create(self, call: Call) -> Puzzle:
        """Get a puzzle, for the actions that `challenge_on` of the account settings names.

        Its solution `challenge.nonce` is sent as `X-Challenge-Token`, once and within five minutes.
        """
        return self._challenges.new(call.app)
