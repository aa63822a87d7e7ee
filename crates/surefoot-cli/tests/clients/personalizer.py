"""Ranks, rewards and activates with Azure Personalizer's own Python package, and prints what it got as JSON.

    personalizer.py URL
"""

import json
import sys

from azure.cognitiveservices.personalizer import PersonalizerClient
from azure.cognitiveservices.personalizer.models import RankableAction, RankRequest
from msrest.authentication import CognitiveServicesCredentials
from msrest.exceptions import HttpOperationError

client = PersonalizerClient(sys.argv[1], CognitiveServicesCredentials("a-key"))
actions = [RankableAction(id=name, features=[{"length": 3}]) for name in ("red", "green", "blue")]
context = [{"x": 0.5}, {"device": "phone"}]
ranked = client.rank(RankRequest(actions=actions, context_features=context, excluded_actions=["blue"], event_id="sdk-1"))
client.events.reward(event_id="sdk-1", value=1.0)
client.events.activate(event_id="sdk-1")
try:
    client.events.activate(event_id="sdk-2")
    refused = None
except HttpOperationError as error:
    told = error.response.json()["error"]
    refused = [error.response.status_code, told["code"], told["message"]]
print(json.dumps({
    "event_id": ranked.event_id,
    "chosen": ranked.reward_action_id,
    "ranking": {action.id: action.probability for action in ranked.ranking},
    "refused": refused,
}))
